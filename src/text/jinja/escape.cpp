#include "text/jinja/budget.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '\'': out += "&#39;"; break;
      case '"': out += "&#34;"; break;
      default: out += c;
    }
  }
  charge(out.size());
  return out;
}

Value escape(const Value& value) { return value.is_markup() ? value : Value(escape_html(str(value)), true); }

}  // namespace dpo::text::jinja
