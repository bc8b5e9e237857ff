#include <algorithm>

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/jinja/arguments.h"
#include "text/jinja/budget.h"
#include "text/jinja/builtins.h"
#include "text/jinja/characters.h"
#include "text/jinja/methods.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {
namespace {

// Implements soft_str: markup stays markup.
Value soft(const Value& value) { return value.is_string() ? value : Value(str(value)); }

Value call_method(const Value& text, const char* name, Values arguments = {}) {
  const Value method = *find_str_method(text, name);
  return object_as<Callable>(method)->call({std::move(arguments), {}});
}

template <const char* const& name>
Value apply_method(Arguments& arguments) {
  const Parameters given(name, arguments, {"s"}, 1);
  return call_method(soft(given[0]), name);
}

constexpr const char* kUpper = "upper";
constexpr const char* kLower = "lower";
constexpr const char* kCapitalize = "capitalize";

Value filter_title(Arguments& arguments) {
  const Parameters given("title", arguments, {"s"}, 1);
  const Value text = soft(given[0]);
  std::u32string word;
  std::string out;
  const auto end_word = [&] {
    if (!word.empty()) out += to_upper(encode(word.substr(0, 1))) + to_lower(encode(word.substr(1)));
    word.clear();
  };
  bool in_separator = false;
  for (const char32_t code : decode(text.string())) {
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
  return call_method(soft(given[0]), "strip", {given.get(1, {})});
}

Value filter_string(Arguments& arguments) {
  const Parameters given("string", arguments, {"s"}, 1);
  return soft(given[0]);
}

Value filter_replace(Arguments& arguments) {
  const Parameters given("replace", arguments, {"s", "old", "new", "count"}, 3);
  const std::int64_t limit = given.get(3, {}).is_none() ? -1 : given.integer(3, -1);
  return replace_all(str(given[0]), str(given[1]), str(given[2]), limit);
}

Value filter_center(Arguments& arguments) {
  const Parameters given("center", arguments, {"value", "width"}, 1);
  return call_method(soft(given[0]), "center", {given.get(1, 80)});
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

Value filter_truncate(Arguments& arguments) {
  const Parameters given("truncate", arguments, {"s", "length", "killwords", "end", "leeway"}, 1);
  const std::int64_t size = given.integer(1, 255);
  const Value end = given.get(3, "...");
  const std::int64_t leeway = given.get(4, {}).is_none() ? 5 : given.integer(4, 5);
  const auto end_size = static_cast<std::int64_t>(length(end));
  if (size < end_size || leeway < 0)
    throw Failure("truncate: the length must be at least that of the end, and the leeway not negative");
  const auto text_size = static_cast<std::int64_t>(length(given[0]));
  if (text_size - leeway <= size) return given[0];
  const Value cut = slice(given[0], {}, size - end_size, {});
  if (given.flag(2)) return calculate(cut, Arithmetic::kAdd, end);
  if (!cut.is_string()) throw Failure("truncate: expected str");
  const Value words = call_method(cut, "rsplit", {" ", 1});
  return calculate(words.items()[0], Arithmetic::kAdd, end);
}

Value filter_wordcount(Arguments& arguments) {
  const Parameters given("wordcount", arguments, {"s"}, 1);
  std::int64_t count = 0;
  bool in_word = false;
  for (const char32_t code : decode(soft(given[0]).string())) {
    if (is_word(code) && !in_word) ++count;
    in_word = is_word(code);
  }
  return count;
}

Value filter_format(Arguments& arguments) {
  if (arguments.positional.size() > 1 && !arguments.named.empty())
    throw Failure("can't handle positional and keyword arguments at the same time");
  const Value text = soft(arguments.positional[0]);
  Dict named;
  for (auto& [name, value] : arguments.named) named.set(name, value);
  const Value values =
      named.empty() ? Value::tuple(Values(arguments.positional.begin() + 1, arguments.positional.end()))
                    : Value(std::move(named));
  return calculate(text, Arithmetic::kModulo, values);
}

Value filter_escape(Arguments& arguments) {
  const Parameters given("escape", arguments, {""}, 1);
  return escape(given[0]);
}

Value filter_forceescape(Arguments& arguments) {
  const Parameters given("forceescape", arguments, {"value"}, 1);
  return {escape_html(str(given[0])), true};
}

Value filter_safe(Arguments& arguments) {
  const Parameters given("safe", arguments, {"value"}, 1);
  return {str(given[0]), true};
}

std::string quote_url(const Value& value, bool for_query) {
  constexpr std::size_t kLongest = 3;  // length of an escape such as %20
  const std::string text = str(value);
  charge(text.size(), kLongest);
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain =
        (byte < 0x80 && (std::isalnum(byte) || std::string_view("_.-~").find(c) != std::string_view::npos)) ||
        (c == '/' && !for_query);
    if (plain)
      out += c;
    else if (c == ' ' && for_query)
      out += '+';
    else
      out += fmt::format("%{:02X}", byte);
  }
  return out;
}

Value filter_urlencode(Arguments& arguments) {
  const Parameters given("urlencode", arguments, {"value"}, 1);
  if (given[0].is_string() || !is_iterable(given[0])) return quote_url(given[0], false);
  std::string out;
  const Value pairs =
      given[0].is_dict()
          ? Value(std::shared_ptr<Object>(std::make_shared<DictView>(given[0], DictView::Part::kItems)))
          : given[0];
  for (const Value& pair : to_list(pairs)) {
    const Values parts = to_list(pair);
    if (parts.size() != 2) throw Failure("urlencode: expected pairs");
    if (!out.empty()) out += "&";
    const std::string name = quote_url(parts[0], true), text = quote_url(parts[1], true);
    charge_text(out.size(), name.size() + text.size());
    out += name + "=" + text;
  }
  return out;
}

Value filter_xmlattr(Arguments& arguments) {
  const Parameters given("xmlattr", arguments, {"d", "autospace"}, 1);
  if (given[0].is_undefined()) refuse_undefined(given[0]);
  if (!given[0].is_dict()) throw Failure("xmlattr: expected a dict");
  std::string out;
  for (const auto& [key, value] : given[0].dict().entries()) {
    if (value.is_none() || value.is_undefined()) continue;
    if (need_string(key, "xmlattr").find_first_of(" \t\n\r\f\v/>=") != std::string::npos)
      throw Failure(fmt::format("Invalid character in attribute name: {}", repr(key)));
    if (!out.empty()) out += " ";
    const Value name = escape(key), text = escape(value);
    charge_text(out.size(), name.string().size() + text.string().size());
    out += name.string() + "=\"" + text.string() + "\"";
  }
  return out.empty() || !given.flag(1, true) ? out : " " + out;
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

// Throws for filters of Jinja2 whose results are of no use in a chat: HTML links, random items, wrapped
// lines.
Value filter_not_supported(Arguments&) { throw Failure("this filter of Jinja2 is not supported"); }

}  // namespace

std::span<const NamedFilter> text_filters() {
  static constexpr NamedFilter filters[] = {
      {"capitalize", apply_method<kCapitalize>},
      {"center", filter_center},
      {"e", filter_escape},
      {"escape", filter_escape},
      {"forceescape", filter_forceescape},
      {"format", filter_format},
      {"indent", filter_indent},
      {"lower", apply_method<kLower>},
      {"pprint", filter_not_supported},
      {"random", filter_not_supported},
      {"replace", filter_replace},
      {"safe", filter_safe},
      {"string", filter_string},
      {"striptags", filter_not_supported},
      {"title", filter_title},
      {"tojson", filter_tojson},
      {"trim", filter_trim},
      {"truncate", filter_truncate},
      {"upper", apply_method<kUpper>},
      {"urlencode", filter_urlencode},
      {"urlize", filter_not_supported},
      {"wordcount", filter_wordcount},
      {"wordwrap", filter_not_supported},
      {"xmlattr", filter_xmlattr},
  };
  return filters;
}

}  // namespace dpo::text::jinja
