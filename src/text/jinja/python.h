// What Python does with values: truth, comparison, arithmetic, text, access. What Python refuses is a
// Failure.
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

// comparison.cpp
bool equal(const Value& a, const Value& b);
enum class Order { kLess, kLessEqual, kGreater, kGreaterEqual };
bool ordered(const Value& a, Order order, const Value& b);
std::size_t hash_of(const Value& value);
bool contains(const Value& container, const Value& item);

// arithmetic.cpp
enum class Arithmetic { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
Value calculate(const Value& a, Arithmetic operation, const Value& b);
Value negate(const Value& value);
Value plus(const Value& value);
Value round_number(const Value& value, std::int64_t digits);  // round(value, digits): halves to even

// repr.cpp
std::string str(const Value& value);
std::string repr(const Value& value);
void append_str(std::string& out, const Value& value);
void append_repr(std::string& out, const Value& value);
void append_quoted(std::string& out, std::string_view text);  // repr of a str
std::string float_repr(double number);

// access.cpp
std::optional<std::size_t> length_of(const Value& value);  // nullopt if it has no len()
std::size_t length(const Value& value);
std::shared_ptr<Iterator> iterate(const Value& value);
bool is_iterable(const Value& value);
Values to_list(const Value& value);
// The index that a value is as a subscript or count (an int or bool); nullopt for other types.
std::optional<std::int64_t> as_index(const Value& value);
std::int64_t need_index(const Value& value, std::string_view what);
// value[start:stop:step]; a part that is absent is none.
Value slice(const Value& value, const Value& start, const Value& stop, const Value& step);
// As the sandbox reads `value.name` and `value[key]`; what does not exist, or is unsafe, is undefined.
Value get_attribute(const Value& value, const std::string& name);
Value get_item(const Value& value, const Value& key);
Value get_only_attribute(const Value& value, const std::string& name);  // never an item of a dict
// The items in reverse order; nullopt if Python cannot reverse the type.
std::optional<Values> reversed_items(const Value& value);
// The attribute alone, without the sandbox's rules and without items; nullopt if there is none.
std::optional<Value> find_attribute(const Value& value, const std::string& name);

// The indices of value[start:stop:step], within the value.
struct SliceRange {
  std::int64_t start, stop, step;
  std::size_t count;
  std::size_t at(std::size_t i) const {
    return static_cast<std::size_t>(start + static_cast<std::int64_t>(i) * step);
  }
};
SliceRange slice_range(std::size_t size, const Value& start, const Value& stop, const Value& step);

// escape.cpp
std::string escape_html(std::string_view text);
Value escape(const Value& value);  // markup

// tojson.cpp
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
std::string to_json(const Value& value, const JsonStyle& style);

// percent_format.cpp: text % value
std::string percent_format(const std::string& text, const Value& value, bool markup);

// format_spec.cpp: format(value, spec), and numbers as text for it and for %
std::string format_value(const Value& value, const std::string& spec);
struct FloatStyle {
  char type;  // one of eEfFgG%, or r: repr
  int precision = 6;
  bool alternate = false;
  bool keep_point = false;  // at least one digit after the point
};
std::string format_float(double number, const FloatStyle& style);

}  // namespace dpo::text::jinja
