#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/chart.h"
#include "report/turns.h"

namespace dpo::report {

enum class Tone { plain, good, bad };

struct Cell {
  std::string text;
  Tone tone = Tone::plain;
  std::string note = {};  // shown in small print after the text
};

struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<Cell>> rows;
};

// A key figure, shown large.
struct Tile {
  std::string name, value;
  std::string note = {};
};

// A text of a model or of the data, shown with its line breaks.
struct Quote {
  std::string title;
  std::vector<Turn> turns;
  Tone tone = Tone::plain;
};

// Start of the policy in the head of every page. 'dpo report' replaces only files that contain it.
constexpr std::string_view kPageMark = "content=\"default-src 'none'; img-src data:; style-src ";

// An HTML page, built part by part. It is one file without external resources, and all text is escaped. Its
// only script, which shows the values of charts, is ours. The page's policy names the script's hash, so a
// browser runs no other script, whatever the text contains.
class Page {
 public:
  explicit Page(std::string title);

  void add_heading(const std::string& text);
  void add_text(const std::string& text);
  void add_lead(const std::string& text, Tone tone = Tone::plain);  // the page's conclusion in one sentence
  void add_tiles(std::span<const Tile> tiles);
  void add_list(std::span<const std::string> items);
  void add_table(const Table& table);
  void add_charts(std::span<const Chart> charts);  // side by side where there is room
  void add_quotes(std::span<const Quote> quotes);  // side by side where there is room
  void add_code(const std::string& text);

  // Parts added between these two calls can be folded. `quote` is text of the data, shown after the summary.
  void begin_details(const std::string& summary, const std::string& quote = {}, bool open = false);
  void end_details();

  std::string to_html() const;

 private:
  std::string title_;
  std::vector<std::string> headings_;
  std::string body_;
};

}  // namespace dpo::report
