#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/jinja/arguments.h"
#include "text/jinja/budget.h"
#include "text/jinja/characters.h"
#include "text/jinja/methods.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {
namespace {

Value strings(const std::vector<std::string_view>& parts) {
  Values items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) items.emplace_back(part);
  return Value::list(std::move(items));
}

template <std::string (*change)(std::string_view)>
Value change_case(const Value& self, Arguments& arguments) {
  const Parameters none("str method", arguments, {}, 0);
  return change(self.string());
}

template <bool (*wanted)(char32_t), bool of_empty = false>
Value is_all(const Value& self, Arguments& arguments) {
  const Parameters none("str method", arguments, {}, 0);
  const std::u32string codes = decode(self.string());
  return codes.empty() ? of_empty : std::all_of(codes.begin(), codes.end(), wanted);
}

// Implements islower() and isupper(): some character is cased, and all cased ones are of that case.
template <bool (*wanted)(char32_t)>
Value is_case(const Value& self, Arguments& arguments) {
  const Parameters none("str method", arguments, {}, 0);
  bool cased = false;
  for (const char32_t code : decode(self.string())) {
    if (!is_cased(code)) continue;
    if (!wanted(code)) return false;
    cased = true;
  }
  return cased;
}

Value is_titled(const Value& self, Arguments& arguments) {
  const Parameters none("istitle", arguments, {}, 0);
  bool cased = false, in_word = false;
  for (const char32_t code : decode(self.string())) {
    const bool starts = is_upper(code) || is_title(code);
    if (starts ? in_word : (is_lower(code) && !in_word)) return false;
    in_word = is_cased(code);
    cased = cased || in_word;
  }
  return cased;
}

Value is_ascii_text(const Value& self, Arguments& arguments) {
  const Parameters none("isascii", arguments, {}, 0);
  return is_ascii(self.string());
}

Value is_identifier_text(const Value& self, Arguments& arguments) {
  const Parameters none("isidentifier", arguments, {}, 0);
  return is_identifier(self.string());
}

template <Ends ends>
Value strip_text(const Value& self, Arguments& arguments) {
  const Parameters given("strip", arguments, {""}, 0);
  if (given.get(0, {}).is_none()) return strip(self.string(), ends);
  const std::string_view characters = need_string(given[0], "strip()");
  return strip(self.string(), ends, &characters);
}

template <bool from_right>
Value split_text(const Value& self, Arguments& arguments) {
  const Parameters given("split", arguments, {"sep", "maxsplit"}, 0);
  const std::int64_t limit = given.integer(1, -1);
  const std::string& text = self.string();
  if (given.get(0, {}).is_none())
    return strings(from_right ? split_space_from_right(text, limit) : split_space(text, limit));
  const std::string& separator = need_string(given[0], "split()");
  if (separator.empty()) throw Failure("empty separator");
  return strings(from_right ? split_from_right(text, separator, limit) : split(text, separator, limit));
}

Value split_text_lines(const Value& self, Arguments& arguments) {
  const Parameters given("splitlines", arguments, {"keepends"}, 0);
  return strings(split_lines(self.string(), given.flag(0)));
}

Value replace_text(const Value& self, Arguments& arguments) {
  const Parameters given("replace", arguments, {"", "", ""}, 2);
  const std::string& old_part = need_string(given[0], "replace()");
  need_string(given[1], "replace()");
  const Value new_part = self.is_markup() ? escape(given[1]) : given[1];
  return replace_all(self.string(), old_part, new_part.string(), given.integer(2, -1));
}

Value join_text(const Value& self, Arguments& arguments) {
  const Parameters given("join", arguments, {""}, 1);
  std::string out;
  std::size_t count = 0;
  const auto iterator = iterate(given[0]);
  for (Value item; iterator->next(item); ++count) {
    if (self.is_markup()) item = escape(item);
    if (!item.is_string())
      throw Failure(fmt::format("sequence item {}: expected str instance, {} found", count, type_name(item)));
    charge_text(out.size(), item.string().size() + self.string().size());
    if (count > 0) out += self.string();
    out += item.string();
  }
  return out;
}

// The part of a text that methods with start and end search. part_of returns nullopt if the start is after
// the end of the text.
struct Part {
  std::string_view text;
  std::size_t start;  // in code points
};

std::optional<Part> part_of(const std::string& text, const Value& start, const Value& end) {
  if (start.is_none() && end.is_none()) return Part{text, 0};
  const std::size_t count = count_characters(text);
  if (const auto index = as_index(start); index && *index > static_cast<std::int64_t>(count))
    return std::nullopt;
  const SliceRange range = slice_range(count, start, end, {});
  if (range.stop < range.start) return std::nullopt;
  const std::size_t first = byte_of_character(text, static_cast<std::size_t>(range.start));
  const std::size_t last = byte_of_character(text, static_cast<std::size_t>(range.stop));
  return Part{std::string_view(text).substr(first, last - first), static_cast<std::size_t>(range.start)};
}

template <bool from_right, bool must_exist>
Value find_text(const Value& self, Arguments& arguments) {
  const Parameters given("find", arguments, {"", "", ""}, 1);
  const std::string& wanted = need_string(given[0], "find()");
  const auto part = part_of(self.string(), given.get(1, {}), given.get(2, {}));
  const std::size_t at = !part        ? std::string_view::npos
                         : from_right ? part->text.rfind(wanted)
                                      : part->text.find(wanted);
  if (at != std::string_view::npos) return part->start + count_characters(part->text.substr(0, at));
  if (must_exist) throw Failure("substring not found");
  return -1;
}

Value count_text(const Value& self, Arguments& arguments) {
  const Parameters given("count", arguments, {"", "", ""}, 1);
  const std::string& wanted = need_string(given[0], "count()");
  const auto part = part_of(self.string(), given.get(1, {}), given.get(2, {}));
  if (!part) return 0;
  if (wanted.empty()) return count_characters(part->text) + 1;
  return split(part->text, wanted).size() - 1;
}

template <bool at_end>
Value begins_with(const Value& self, Arguments& arguments) {
  const Parameters given(at_end ? "endswith" : "startswith", arguments, {"", "", ""}, 1);
  const auto part = part_of(self.string(), given.get(1, {}), given.get(2, {}));
  const auto matches = [&](const Value& wanted) {
    const std::string& text = need_string(wanted, "startswith()");
    return part && (at_end ? part->text.ends_with(text) : part->text.starts_with(text));
  };
  if (given[0].kind() != Kind::kTuple) return matches(given[0]);
  return std::any_of(given[0].items().begin(), given[0].items().end(), matches);
}

std::string padding(std::int64_t count, const std::string& fill) {
  if (count <= 0) return "";
  const auto size = static_cast<std::uint64_t>(count);
  charge(size, fill.size());
  std::string out;
  for (std::uint64_t i = 0; i < size; ++i) out += fill;
  return out;
}

enum class Align { kLeft, kRight, kCenter };

template <Align align>
Value justify(const Value& self, Arguments& arguments) {
  const Parameters given("justify", arguments, {"", ""}, 1);
  const std::int64_t width = given.integer(0, 0);
  const std::string fill = given.has(1) ? need_string(given[1], "fill character") : " ";
  if (count_characters(fill) != 1) throw Failure("The fill character must be exactly one character long");
  const auto size = static_cast<std::int64_t>(count_characters(self.string()));
  if (width <= size) return self;
  const std::int64_t missing = width - size;
  const std::int64_t left = align == Align::kLeft    ? 0
                            : align == Align::kRight ? missing
                                                     : missing / 2 + (missing & width & 1);
  return padding(left, fill) + self.string() + padding(missing - left, fill);
}

Value fill_zeros(const Value& self, Arguments& arguments) {
  const Parameters given("zfill", arguments, {""}, 1);
  const std::string& text = self.string();
  const std::string zeros =
      padding(given.integer(0, 0) - static_cast<std::int64_t>(count_characters(text)), "0");
  const bool has_sign = !text.empty() && (text[0] == '+' || text[0] == '-');
  return has_sign ? text[0] + zeros + text.substr(1) : zeros + text;
}

Value expand_tabs(const Value& self, Arguments& arguments) {
  const Parameters given("expandtabs", arguments, {"tabsize"}, 0);
  const std::int64_t size = given.integer(0, 8);
  std::string out;
  std::int64_t column = 0;
  for (const char32_t code : decode(self.string())) {
    if (code == '\t') {
      const std::int64_t spaces = size > 0 ? size - column % size : 0;
      charge_text(out.size(), static_cast<std::uint64_t>(spaces));
      out.append(static_cast<std::size_t>(spaces), ' ');
      column += spaces;
      continue;
    }
    append_utf8(out, code);
    column = code == '\n' || code == '\r' ? 0 : column + 1;
  }
  return out;
}

template <bool from_right>
Value partition(const Value& self, Arguments& arguments) {
  const Parameters given("partition", arguments, {""}, 1);
  const std::string& separator = need_string(given[0], "partition()");
  if (separator.empty()) throw Failure("empty separator");
  const std::string& text = self.string();
  const std::size_t at = from_right ? text.rfind(separator) : text.find(separator);
  if (at == std::string::npos)
    return from_right ? Value::tuple({"", "", text}) : Value::tuple({text, "", ""});
  return Value::tuple({text.substr(0, at), separator, text.substr(at + separator.size())});
}

template <bool at_end>
Value remove_part(const Value& self, Arguments& arguments) {
  const Parameters given("removeprefix", arguments, {""}, 1);
  const std::string& part = need_string(given[0], "removeprefix()");
  const std::string& text = self.string();
  if (at_end ? !text.ends_with(part) : !text.starts_with(part)) return text;
  return at_end ? text.substr(0, text.size() - part.size()) : text.substr(part.size());
}

Value format_text(const Value& self, Arguments& arguments) { return format_string(self, arguments); }

Value format_map(const Value& self, Arguments& arguments) {
  const Parameters given("format_map", arguments, {""}, 1);
  if (!given[0].is_dict()) throw Failure("format_map() takes a dict");
  Arguments by_name;
  for (const auto& [key, value] : given[0].dict().entries())
    if (key.is_string()) by_name.named.emplace_back(key.string(), value);
  return format_string(self, by_name);
}

Value not_supported(const Value&, Arguments&) { throw Failure("this method of str is not supported"); }

const std::unordered_map<std::string_view, Method>& str_methods() {
  static const std::unordered_map<std::string_view, Method> methods = {
      {"capitalize", change_case<capitalize>},
      {"casefold", change_case<case_fold>},
      {"center", justify<Align::kCenter>},
      {"count", count_text},
      {"encode", not_supported},
      {"endswith", begins_with<true>},
      {"expandtabs", expand_tabs},
      {"find", find_text<false, false>},
      {"format", format_text},
      {"format_map", format_map},
      {"index", find_text<false, true>},
      {"isalnum", is_all<is_alnum>},
      {"isalpha", is_all<is_alpha>},
      {"isascii", is_ascii_text},
      {"isdecimal", is_all<is_decimal>},
      {"isdigit", is_all<is_digit>},
      {"isidentifier", is_identifier_text},
      {"islower", is_case<is_lower>},
      {"isnumeric", is_all<is_numeric>},
      {"isprintable", is_all<is_printable, true>},
      {"isspace", is_all<is_space>},
      {"istitle", is_titled},
      {"isupper", is_case<is_upper>},
      {"join", join_text},
      {"ljust", justify<Align::kLeft>},
      {"lower", change_case<to_lower>},
      {"lstrip", strip_text<Ends::kLeft>},
      {"maketrans", not_supported},
      {"partition", partition<false>},
      {"removeprefix", remove_part<false>},
      {"removesuffix", remove_part<true>},
      {"replace", replace_text},
      {"rfind", find_text<true, false>},
      {"rindex", find_text<true, true>},
      {"rjust", justify<Align::kRight>},
      {"rpartition", partition<true>},
      {"rsplit", split_text<true>},
      {"rstrip", strip_text<Ends::kRight>},
      {"split", split_text<false>},
      {"splitlines", split_text_lines},
      {"startswith", begins_with<false>},
      {"strip", strip_text<Ends::kBoth>},
      {"swapcase", change_case<swap_case>},
      {"title", change_case<to_title>},
      {"translate", not_supported},
      {"upper", change_case<to_upper>},
      {"zfill", fill_zeros},
  };
  return methods;
}

// Converts the result of a method of markup to markup.
Value as_markup(const Value& value) {
  if (value.is_string()) return {value.string(), true};
  if (!value.is_sequence()) return value;
  Values items;
  for (const Value& item : value.items()) items.push_back(as_markup(item));
  return value.is_list() ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

}  // namespace

Value bind_method(const Value& self, const std::string& name, Method method) {
  return Value(std::shared_ptr<Object>(std::make_shared<Function>(
      name,
      [self, method](Arguments& arguments) {
        const Value result = method(self, arguments);
        return self.is_markup() ? as_markup(result) : result;
      },
      self.depth())));
}

std::optional<Value> find_str_method(const Value& text, const std::string& name) {
  const auto found = str_methods().find(name);
  if (found == str_methods().end()) return std::nullopt;
  return bind_method(text, name, found->second);
}

}  // namespace dpo::text::jinja
