// Python's operations on values: truth, comparison, arithmetic, text, access. They throw Failure where Python
// raises an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace dpo::text::jinja {

class Iterator;

std::string type_name(const Value& value);  // "str", "NoneType", ...
[[noreturn]] void refuse_undefined(const Value& value);

bool truth(const Value& value);

// Defined in comparison.cpp.
bool equal(const Value& a, const Value& b);
enum class Order { kLess, kLessEqual, kGreater, kGreaterEqual };
bool ordered(const Value& a, Order order, const Value& b);
std::size_t hash_of(const Value& value);
bool contains(const Value& container, const Value& item);

// Defined in arithmetic.cpp.
enum class Arithmetic { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo };
Value calculate(const Value& a, Arithmetic operation, const Value& b);
Value negate(const Value& value);
Value plus(const Value& value);
Value escape(const Value& value);  // escapes &, <, >, ' and " of a text that is not markup

// Defined in repr.cpp.
std::string str(const Value& value);
std::string repr(const Value& value);
void append_str(std::string& out, const Value& value);
std::string float_repr(double number);

// Defined in access.cpp.
std::optional<std::size_t> length_of(const Value& value);  // nullopt if it has no len()
std::size_t length(const Value& value);
std::shared_ptr<Iterator> iterate(const Value& value);
bool is_iterable(const Value& value);
Values to_list(const Value& value);
std::int64_t need_index(const Value& value, std::string_view what);
// Computes value[start:stop:step]. An absent part is none.
Value slice(const Value& value, const Value& start, const Value& stop, const Value& step);
// Read `value.name` and `value[key]` like the sandbox. The result is undefined if the member does not exist
// or is unsafe.
Value get_attribute(const Value& value, const std::string& name);
Value get_item(const Value& value, const Value& key);
// Returns the items in reverse order, or nullopt if Python cannot reverse the type.
std::optional<Values> reversed_items(const Value& value);

// Defined in tojson.cpp.
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
std::string to_json(const Value& value, const JsonStyle& style);

// Computes text % value. Defined in formatting.cpp.
std::string percent_format(const std::string& text, const Value& value);
std::string fixed_text(double number, char type, int precision);  // like printf's f, e and g

}  // namespace dpo::text::jinja
