#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/jinja/arguments.h"
#include "text/jinja/budget.h"
#include "text/jinja/characters.h"
#include "text/jinja/methods.h"
#include "text/jinja/python.h"
#include "text/jinja/unsupported.h"

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

template <bool (*wanted)(char32_t)>
Value is_all(const Value& self, Arguments& arguments) {
  const Parameters none("str method", arguments, {}, 0);
  const std::u32string codes = decode(self.string());
  return !codes.empty() && std::all_of(codes.begin(), codes.end(), wanted);
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
  return replace_all(self.string(), need_string(given[0], "replace()"), need_string(given[1], "replace()"),
                     given.integer(2, -1));
}

Value join_text(const Value& self, Arguments& arguments) {
  const Parameters given("join", arguments, {""}, 1);
  std::string out;
  std::size_t count = 0;
  const auto iterator = iterate(given[0]);
  for (Value item; iterator->next(item); ++count) {
    if (!item.is_string())
      throw Failure(fmt::format("sequence item {}: expected str instance, {} found", count, type_name(item)));
    charge_text(out.size(), item.string().size() + self.string().size());
    if (count > 0) out += self.string();
    out += item.string();
  }
  return out;
}

template <bool from_right, bool must_exist>
Value find_text(const Value& self, Arguments& arguments) {
  const Parameters given("find", arguments, {""}, 1);
  const std::string& wanted = need_string(given[0], "find()");
  const std::string& text = self.string();
  const std::size_t at = from_right ? text.rfind(wanted) : text.find(wanted);
  if (at != std::string::npos) return count_characters(std::string_view(text).substr(0, at));
  if (must_exist) throw Failure("substring not found");
  return -1;
}

Value count_text(const Value& self, Arguments& arguments) {
  const Parameters given("count", arguments, {""}, 1);
  const std::string& wanted = need_string(given[0], "count()");
  if (wanted.empty()) return count_characters(self.string()) + 1;
  return split(self.string(), wanted).size() - 1;
}

template <bool at_end>
Value begins_with(const Value& self, Arguments& arguments) {
  const Parameters given(at_end ? "endswith" : "startswith", arguments, {""}, 1);
  const auto matches = [&](const Value& wanted) {
    const std::string& text = need_string(wanted, "startswith()");
    return at_end ? self.string().ends_with(text) : self.string().starts_with(text);
  };
  if (given[0].kind() != Kind::kTuple) return matches(given[0]);
  return std::any_of(given[0].items().begin(), given[0].items().end(), matches);
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

Value format_fields(const Value& self, Arguments& arguments) {
  return format_string(self.string(), arguments);
}

const std::unordered_map<std::string_view, Method>& str_methods() {
  static const std::unordered_map<std::string_view, Method> methods = {
      {"capitalize", change_case<capitalize>},
      {"count", count_text},
      {"endswith", begins_with<true>},
      {"find", find_text<false, false>},
      {"format", format_fields},
      {"index", find_text<false, true>},
      {"isalnum", is_all<is_alnum>},
      {"isalpha", is_all<is_alpha>},
      {"isdecimal", is_all<is_decimal>},
      {"isdigit", is_all<is_digit>},
      {"isspace", is_all<is_space>},
      {"join", join_text},
      {"lower", change_case<to_lower>},
      {"lstrip", strip_text<Ends::kLeft>},
      {"partition", partition<false>},
      {"removeprefix", remove_part<false>},
      {"removesuffix", remove_part<true>},
      {"replace", replace_text},
      {"rfind", find_text<true, false>},
      {"rindex", find_text<true, true>},
      {"rpartition", partition<true>},
      {"rsplit", split_text<true>},
      {"rstrip", strip_text<Ends::kRight>},
      {"split", split_text<false>},
      {"splitlines", split_text_lines},
      {"startswith", begins_with<false>},
      {"strip", strip_text<Ends::kBoth>},
      {"title", change_case<to_title>},
      {"upper", change_case<to_upper>},
  };
  return methods;
}

}  // namespace

Value bind_method(const Value& self, const std::string& name, Method method) {
  return Value(std::shared_ptr<Object>(std::make_shared<Function>(
      name, [self, method](Arguments& arguments) { return method(self, arguments); }, self.depth())));
}

std::optional<Value> find_str_method(const Value& text, const std::string& name) {
  const auto found = str_methods().find(name);
  if (found == str_methods().end()) {
    if (is_unsupported("text method", name)) throw Failure(unsupported("text method", name));
    return std::nullopt;
  }
  if (text.is_markup()) throw Failure("methods of a text from the filter safe are not supported");
  return bind_method(text, name, found->second);
}

}  // namespace dpo::text::jinja
