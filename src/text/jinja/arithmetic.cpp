#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "text/jinja/budget.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {
namespace {

constexpr const char* kOperatorText[] = {"+", "-", "*", "/", "//", "%"};

[[noreturn]] void refuse_operands(const Value& a, Arithmetic operation, const Value& b) {
  if (a.is_undefined()) refuse_undefined(a);
  if (b.is_undefined()) refuse_undefined(b);
  throw Failure(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'",
                            kOperatorText[static_cast<int>(operation)], type_name(a), type_name(b)));
}

[[noreturn]] void refuse_large_integer() { throw Failure("an integer does not fit into 64 bits"); }
[[noreturn]] void refuse_zero() { throw Failure("division by zero"); }

struct Quotient {
  std::int64_t floor, remainder;
};

Quotient divide_integers(std::int64_t a, std::int64_t b) {
  if (b == 0) refuse_zero();
  if (b == -1) {
    if (a == INT64_MIN) refuse_large_integer();
    return {-a, 0};
  }
  Quotient result{a / b, a % b};
  if (result.remainder != 0 && (result.remainder < 0) != (b < 0)) {
    --result.floor;
    result.remainder += b;
  }
  return result;
}

Value calculate_integers(std::int64_t a, Arithmetic operation, std::int64_t b) {
  std::int64_t result = 0;
  switch (operation) {
    case Arithmetic::kAdd:
      if (__builtin_add_overflow(a, b, &result)) refuse_large_integer();
      return result;
    case Arithmetic::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) refuse_large_integer();
      return result;
    case Arithmetic::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) refuse_large_integer();
      return result;
    case Arithmetic::kDivide:
      if (b == 0) refuse_zero();
      return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
    case Arithmetic::kFloorDivide: return divide_integers(a, b).floor;
    case Arithmetic::kModulo: return divide_integers(a, b).remainder;
  }
  return {};
}

Value calculate_floats(double a, Arithmetic operation, double b) {
  switch (operation) {
    case Arithmetic::kAdd: return a + b;
    case Arithmetic::kSubtract: return a - b;
    case Arithmetic::kMultiply: return a * b;
    case Arithmetic::kDivide:
      if (b == 0) refuse_zero();
      return a / b;
    case Arithmetic::kFloorDivide:
    case Arithmetic::kModulo: throw Failure("the operators // and % are not supported for floats");
  }
  return {};
}

Value join_strings(const Value& a, const Value& b) {
  if (!a.is_markup() && !b.is_markup()) return a.string() + b.string();
  return {escape(a).string() + escape(b).string(), true};
}

Value join_sequences(const Value& a, const Value& b) {
  charge((a.items().size() + b.items().size()) * sizeof(Value));
  Values items = a.items();
  items.insert(items.end(), b.items().begin(), b.items().end());
  return a.is_list() ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

Value repeat(const Value& value, std::int64_t times) {
  const std::uint64_t count = times > 0 ? static_cast<std::uint64_t>(times) : 0;
  if (value.is_string()) {
    charge(count, value.string().size());
    std::string text;
    text.reserve(value.string().size() * count);
    for (std::uint64_t i = 0; i < count && !value.string().empty(); ++i) text += value.string();
    return {std::move(text), value.is_markup()};
  }
  charge(count, value.items().size() * sizeof(Value));
  Values items;
  for (std::uint64_t i = 0; i < count && !value.items().empty(); ++i)
    items.insert(items.end(), value.items().begin(), value.items().end());
  return value.is_list() ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

bool is_repeatable(const Value& value) { return value.is_string() || value.is_sequence(); }

}  // namespace

Value calculate(const Value& a, Arithmetic operation, const Value& b) {
  if (a.is_string() && operation == Arithmetic::kModulo) {
    if (a.is_markup()) throw Failure("% of a text from the filter safe is not supported");
    return percent_format(a.string(), b);
  }
  if (a.is_integer() && b.is_integer()) return calculate_integers(a.integer(), operation, b.integer());
  if (a.is_number() && b.is_number()) return calculate_floats(a.number(), operation, b.number());
  if (operation == Arithmetic::kAdd) {
    if (a.is_string() && b.is_string()) return join_strings(a, b);
    if (a.is_sequence() && a.kind() == b.kind()) return join_sequences(a, b);
  }
  if (operation == Arithmetic::kMultiply) {
    if (is_repeatable(a) && b.is_integer()) return repeat(a, b.integer());
    if (a.is_integer() && is_repeatable(b)) return repeat(b, a.integer());
  }
  refuse_operands(a, operation, b);
}

Value escape(const Value& value) {
  if (value.is_markup()) return value;
  std::string out;
  for (const char c : str(value)) {
    charge_text(out.size(), 5);
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '\'': out += "&#39;"; break;
      case '"': out += "&#34;"; break;
      default: out += c;
    }
  }
  return {std::move(out), true};
}

Value negate(const Value& value) {
  if (value.is_integer()) return calculate_integers(0, Arithmetic::kSubtract, value.integer());
  if (value.is_number()) return -value.number();
  if (value.is_undefined()) refuse_undefined(value);
  throw Failure(fmt::format("bad operand type for unary -: '{}'", type_name(value)));
}

Value plus(const Value& value) {
  if (value.is_integer()) return value.integer();
  if (value.is_number()) return value;
  if (value.is_undefined()) refuse_undefined(value);
  throw Failure(fmt::format("bad operand type for unary +: '{}'", type_name(value)));
}

}  // namespace dpo::text::jinja
