#include "report/page.h"

#include <fmt/format.h>

#include "base/sha256.h"
#include "report/html.h"
#include "report/style.h"

namespace dpo::report {
namespace {

const char* class_of(Tone tone) {
  switch (tone) {
    case Tone::good: return " good";
    case Tone::bad: return " bad";
    case Tone::plain: break;
  }
  return "";
}

std::string html_of(const Cell& cell) {
  const std::string note = cell.note.empty() ? "" : fmt::format("<small>{}</small>", escape(cell.note));
  const char* const tone = cell.tone == Tone::good  ? R"( class="good")"
                           : cell.tone == Tone::bad ? R"( class="bad")"
                                                    : "";
  return fmt::format("<td{}>{}{}</td>", tone, escape(cell.text), note);
}

// dir=auto supports languages that are written from right to left, and keeps a text from reordering what is
// around it. Roles set their own direction, so that they do not decide the direction of the text.
std::string html_of(const Turn& turn) {
  const std::string role = turn.role.empty() ? "" : fmt::format("<b dir=\"ltr\">{}</b>", escape(turn.role));
  return fmt::format("<p dir=\"auto\">{}{}</p>", role, escape(turn.text));
}

// Returns a script's SHA-256 in base64, as a Content-Security-Policy names it: 'sha256-...'.
std::string hash_of(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  Sha256 hash;
  hash.add(text);
  std::string digits;
  unsigned bits = 0;
  int held = 0;  // bits that are not written yet
  for (const std::byte byte : hash.finish()) {
    bits = ((bits << 8) | std::to_integer<unsigned>(byte)) & 0xFFFF;
    for (held += 8; held >= 6; held -= 6) digits += kDigits[(bits >> (held - 6)) & 0x3F];
  }
  digits += kDigits[(bits << (6 - held)) & 0x3F];  // 4 of the 256 bits remain
  return fmt::format("'sha256-{}='", digits);
}

}  // namespace

Page::Page(std::string title) : title_(std::move(title)) {}

void Page::add_heading(const std::string& text) {
  headings_.push_back(text);
  body_ += fmt::format("<h2 id=\"part-{}\">{}</h2>\n", headings_.size(), escape(text));
}

void Page::add_text(const std::string& text) { body_ += fmt::format("<p>{}</p>\n", escape(text)); }

void Page::add_lead(const std::string& text, Tone tone) {
  body_ += fmt::format("<p class=\"lead{}\">{}</p>\n", class_of(tone), escape(text));
}

void Page::add_tiles(std::span<const Tile> tiles) {
  body_ += "<dl class=\"tiles\">\n";
  for (const Tile& tile : tiles)
    body_ += fmt::format("<div><dt>{}</dt><dd>{}<small>{}</small></dd></div>\n", escape(tile.name),
                         escape(tile.value), escape(tile.note));
  body_ += "</dl>\n";
}

void Page::add_list(std::span<const std::string> items) {
  body_ += "<ul>\n";
  for (const std::string& item : items) body_ += fmt::format("<li>{}</li>\n", escape(item));
  body_ += "</ul>\n";
}

// A wide table scrolls within its box, also with the keyboard, so that the whole page does not scroll on a
// phone.
void Page::add_table(const Table& table) {
  body_ +=
      fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table{}>\n<tr>",
                  escape(headings_.empty() ? title_ : headings_.back()),
                  table.header.size() == 2 ? " class=\"two\"" : "");
  for (const std::string& text : table.header)
    body_ += fmt::format("<th scope=\"col\">{}</th>", escape(text));
  body_ += "</tr>\n";
  for (const std::vector<Cell>& row : table.rows) {
    body_ += "<tr>";
    for (const Cell& cell : row) body_ += html_of(cell);
    body_ += "</tr>\n";
  }
  body_ += "</table></div>\n";
}

void Page::add_charts(std::span<const Chart> charts) {
  body_ += "<div class=\"charts\">\n";
  for (const Chart& chart : charts) body_ += to_figure(chart) + "\n";
  body_ += "</div>\n";
}

void Page::add_quotes(std::span<const Quote> quotes) {
  body_ += "<div class=\"quotes\">\n";
  for (const Quote& quote : quotes) {
    body_ += fmt::format("<section class=\"quote{}\"><h3>{}</h3><div tabindex=\"0\">", class_of(quote.tone),
                         escape(quote.title));
    for (const Turn& turn : quote.turns) body_ += html_of(turn);
    body_ += "</div></section>\n";
  }
  body_ += "</div>\n";
}

void Page::add_code(const std::string& text) {
  body_ += fmt::format("<pre tabindex=\"0\">{}</pre>\n", escape(text));
}

void Page::begin_details(const std::string& summary, const std::string& quote, bool open) {
  // bdi keeps the quoted text from reordering the summary, whatever its direction.
  const std::string text = quote.empty() ? "" : fmt::format(" <bdi>{}</bdi>", escape(quote));
  body_ += fmt::format("<details{}><summary>{}{}</summary>\n", open ? " open" : "", escape(summary), text);
}

void Page::end_details() { body_ += "</details>\n"; }

std::string Page::to_html() const {
  std::string links;
  for (std::size_t i = 0; i < headings_.size(); ++i)
    links += fmt::format("<a href=\"#part-{}\">{}</a>\n", i + 1, escape(headings_[i]));
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" {}{}; "
      "script-src {}; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n"
      "<h1>{}</h1>\n<nav aria-label=\"parts of this page\">{}</nav>\n<main>\n{}</main>\n<script>{}</script>\n"
      "</body>\n</html>\n",
      kPageMark, hash_of(kStyle), hash_of(kScript), escape(title_), kStyle, escape(title_), links, body_,
      kScript);
}

}  // namespace dpo::report
