#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/chart.h"

namespace dpo::report {

enum class Tone { plain, good, bad };

struct Cell {
  std::string text;
  Tone tone = Tone::plain;
  std::string note = {};  // in small print after the text
};

struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<Cell>> rows;
};

// An HTML page, built part by part. It is one file without scripts and external resources; all text is
// escaped.
class Page {
 public:
  explicit Page(std::string title);

  void add_heading(const std::string& text);
  void add_text(const std::string& text);
  void add_table(const Table& table);
  void add_charts(std::span<const Chart> charts);  // side by side where there is room
  void add_code(const std::string& text);

  std::string to_html() const;

 private:
  std::string title_;
  std::string body_;
};

}  // namespace dpo::report
