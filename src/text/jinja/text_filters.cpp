#include "text/jinja/arguments.h"
#include "text/jinja/budget.h"
#include "text/jinja/builtins.h"
#include "text/jinja/characters.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {
namespace {

// Applies a function to a text. Markup stays markup.
template <std::string (*change)(std::string_view)>
Value change_text(Arguments& arguments) {
  const Parameters given("text filter", arguments, {"s"}, 1);
  return {change(str(given[0])), given[0].is_markup()};
}

Value filter_title(Arguments& arguments) {
  const Parameters given("title", arguments, {"s"}, 1);
  std::u32string word;
  std::string out;
  const auto end_word = [&] {
    if (!word.empty()) out += to_upper(encode(word.substr(0, 1))) + to_lower(encode(word.substr(1)));
    word.clear();
  };
  bool in_separator = false;
  for (const char32_t code : decode(str(given[0]))) {
    const bool separates =
        is_space(code) || std::u32string_view(U"-({[<").find(code) != std::u32string_view::npos;
    if (separates != in_separator) end_word();
    in_separator = separates;
    word += code;
  }
  end_word();
  return Value(std::move(out));
}

Value filter_trim(Arguments& arguments) {
  const Parameters given("trim", arguments, {"value", "chars"}, 1);
  const std::string text = str(given[0]);
  const Value characters = given.get(1, {});
  if (characters.is_none()) return {std::string(strip(text, Ends::kBoth)), given[0].is_markup()};
  const std::string_view set = need_string(characters, "trim");
  return {std::string(strip(text, Ends::kBoth, &set)), given[0].is_markup()};
}

Value filter_string(Arguments& arguments) {
  const Parameters given("string", arguments, {"s"}, 1);
  return given[0].is_string() ? given[0] : Value(str(given[0]));
}

Value filter_replace(Arguments& arguments) {
  const Parameters given("replace", arguments, {"s", "old", "new", "count"}, 3);
  const std::int64_t limit = given.get(3, {}).is_none() ? -1 : given.integer(3, -1);
  return replace_all(str(given[0]), str(given[1]), str(given[2]), limit);
}

Value filter_indent(Arguments& arguments) {
  const Parameters given("indent", arguments, {"s", "width", "first", "blank"}, 1);
  const std::string& text = need_string(given[0], "indent");
  std::string indention = "    ";
  if (given.has(1) && given[1].is_string())
    indention = given[1].string();
  else if (given.has(1))
    indention = calculate(" ", Arithmetic::kMultiply, given[1]).string();
  const bool markup = given[0].is_markup();
  std::string out;
  const std::string with_newline = text + "\n";  // Jinja2 adds one for the last line
  bool first_line = true;
  for (const std::string_view line : split_lines(with_newline)) {
    charge_text(out.size(), line.size() + indention.size());
    if (!first_line) out += "\n";
    const bool indented = first_line ? given.flag(2) : given.flag(3) || !line.empty();
    if (indented) out += indention;
    out += line;
    first_line = false;
  }
  return {std::move(out), markup};
}

Value filter_format(Arguments& arguments) {
  if (arguments.positional.size() > 1 && !arguments.named.empty())
    throw Failure("can't handle positional and keyword arguments at the same time");
  Dict named;
  for (auto& [name, value] : arguments.named) named.set(name, value);
  const Value values =
      named.empty() ? Value::tuple(Values(arguments.positional.begin() + 1, arguments.positional.end()))
                    : Value(std::move(named));
  return calculate(str(arguments.positional[0]), Arithmetic::kModulo, values);
}

Value filter_safe(Arguments& arguments) {
  const Parameters given("safe", arguments, {"value"}, 1);
  return {str(given[0]), true};
}

Value filter_tojson(Arguments& arguments) {
  const Parameters given("tojson", arguments, {"x", "ensure_ascii", "indent", "separators", "sort_keys"}, 1);
  JsonStyle style;
  style.ensure_ascii = given.flag(1);
  style.sort_keys = given.flag(4);
  if (const Value indent = given.get(2, {}); indent.is_string())
    style.indent = indent.string();
  else if (!indent.is_none())
    style.indent = calculate(" ", Arithmetic::kMultiply, indent).string();
  if (style.indent) style.item_separator = ",";
  if (const Value separators = given.get(3, {}); !separators.is_none()) {
    const Values parts = to_list(separators);
    if (parts.size() != 2) throw Failure("tojson: expected two separators");
    style.item_separator = need_string(parts[0], "tojson: separators");
    style.key_separator = need_string(parts[1], "tojson: separators");
  }
  return to_json(given[0], style);
}

}  // namespace

std::span<const NamedFilter> text_filters() {
  static constexpr NamedFilter filters[] = {
      {"capitalize", change_text<capitalize>},
      {"format", filter_format},
      {"indent", filter_indent},
      {"lower", change_text<to_lower>},
      {"replace", filter_replace},
      {"safe", filter_safe},
      {"string", filter_string},
      {"title", filter_title},
      {"tojson", filter_tojson},
      {"trim", filter_trim},
      {"upper", change_text<to_upper>},
  };
  return filters;
}

}  // namespace dpo::text::jinja
