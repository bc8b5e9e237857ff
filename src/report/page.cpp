#include "report/page.h"

#include <fmt/format.h>

#include "report/html.h"

namespace dpo::report {
namespace {

constexpr std::string_view kStyle = R"(
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem .4rem 0; border-bottom: 1px solid #ddd; overflow-wrap: anywhere; }
th { border-bottom: 2px solid #999; } small { display: block; color: #666; }
.good { color: #1d6b3c; } .bad { color: #a03412; }
pre { background: #f5f5f2; padding: .8rem; overflow-x: auto; font-size: .82rem; line-height: 1.4; }
.charts { display: flex; flex-wrap: wrap; gap: 1rem; } .charts svg { flex: 1 1 24rem; max-width: 30rem; }
svg text { font: 12px system-ui, sans-serif; } svg text:not([fill]) { fill: #444; } svg .title { font-weight: 600; }
svg .grid { stroke: #e4e4e0; } svg .curve { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
)";

std::string html_of(const Cell& cell) {
  const char* const tone = cell.tone == Tone::good  ? R"( class="good")"
                           : cell.tone == Tone::bad ? R"( class="bad")"
                                                    : "";
  const std::string note = cell.note.empty() ? "" : fmt::format("<small>{}</small>", escape(cell.note));
  return fmt::format("<td{}>{}{}</td>", tone, escape(cell.text), note);
}

}  // namespace

Page::Page(std::string title) : title_(std::move(title)) {}

void Page::add_heading(const std::string& text) { body_ += fmt::format("<h2>{}</h2>\n", escape(text)); }

void Page::add_text(const std::string& text) { body_ += fmt::format("<p>{}</p>\n", escape(text)); }

void Page::add_table(const Table& table) {
  body_ += "<table>\n<tr>";
  for (const std::string& text : table.header) body_ += fmt::format("<th>{}</th>", escape(text));
  body_ += "</tr>\n";
  for (const std::vector<Cell>& row : table.rows) {
    body_ += "<tr>";
    for (const Cell& cell : row) body_ += html_of(cell);
    body_ += "</tr>\n";
  }
  body_ += "</table>\n";
}

void Page::add_charts(std::span<const Chart> charts) {
  body_ += "<div class=\"charts\">\n";
  for (const Chart& chart : charts) body_ += to_svg(chart) + "\n";
  body_ += "</div>\n";
}

void Page::add_code(const std::string& text) { body_ += fmt::format("<pre>{}</pre>\n", escape(text)); }

std::string Page::to_html() const {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n{2}</body>\n</html>\n",
      escape(title_), kStyle, body_);
}

}  // namespace dpo::report
