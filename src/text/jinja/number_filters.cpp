#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "text/jinja/arguments.h"
#include "text/jinja/builtins.h"
#include "text/jinja/characters.h"
#include "text/jinja/numbers.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {
namespace {

Value filter_abs(Arguments& arguments) {
  const Parameters given("abs", arguments, {""}, 1);
  const Value& value = given[0];
  if (value.is_integer()) return value.integer() < 0 ? negate(value) : plus(value);
  if (value.is_number()) return std::abs(value.number());
  throw Failure(fmt::format("bad operand type for abs(): '{}'", type_name(value)));
}

std::optional<double> float_of(const Value& value) {
  if (value.is_undefined()) refuse_undefined(value);
  if (value.is_number()) return value.number();
  return value.is_string() ? parse_float(value.string()) : std::nullopt;
}

Value filter_int(Arguments& arguments) {
  const Parameters given("int", arguments, {"value", "default", "base"}, 1);
  const Value& value = given[0];
  if (value.is_integer()) return value.integer();
  // With another base, int(text, base) raises a ValueError, and Jinja2 reads the text as a float.
  const std::int64_t base = given.integer(2, 10);
  if (value.is_string() && (base == 0 || (base >= 2 && base <= 36)))
    if (const auto number = parse_integer(value.string(), static_cast<int>(base))) return *number;
  const std::optional<double> number = float_of(value);
  if (!number || std::isnan(*number)) return given.get(1, 0);
  if (std::isinf(*number)) {
    // Python's int(inf) raises an OverflowError, which Jinja2 does not catch.
    if (!value.is_string()) throw Failure("cannot convert float infinity to integer");
    return given.get(1, 0);
  }
  if (std::abs(*number) >= 9223372036854775808.0) throw Failure("an integer does not fit into 64 bits");
  return static_cast<std::int64_t>(*number);
}

Value filter_float(Arguments& arguments) {
  const Parameters given("float", arguments, {"value", "default"}, 1);
  const std::optional<double> number = float_of(given[0]);
  return number ? Value(*number) : given.get(1, 0.0);
}

Value filter_round(Arguments& arguments) {
  const Parameters given("round", arguments, {"value", "precision", "method"}, 1);
  const Value method = given.get(2, "common");
  const bool ceil = equal(method, "ceil"), floor = equal(method, "floor");
  if (!ceil && !floor && !equal(method, "common")) throw Failure("method must be common, ceil or floor");
  if (!ceil && !floor) {
    // round(value, none) is round(value), which is an integer.
    if (given.get(1, 0).is_none()) {
      if (given[0].is_integer()) return plus(given[0]);
      const double whole = round_number(given[0], 0).number();
      if (!(std::abs(whole) < 9.2e18)) throw Failure("cannot convert float to integer");
      return static_cast<std::int64_t>(whole);
    }
    return round_number(given[0], given.integer(1, 0));
  }
  const Value factor = calculate(10, Arithmetic::kPower, given.get(1, 0));
  const Value scaled = calculate(given[0], Arithmetic::kMultiply, factor);
  if (!scaled.is_number() || !std::isfinite(scaled.number()))
    throw Failure("round: expected a finite number");
  const double whole = ceil ? std::ceil(scaled.number()) : std::floor(scaled.number());
  if (!(std::abs(whole) < 9.2e18)) throw Failure("an integer does not fit into 64 bits");
  const Value integer = scaled.is_integer() ? plus(scaled) : Value(static_cast<std::int64_t>(whole));
  return calculate(integer, Arithmetic::kDivide, factor);
}

Value filter_filesizeformat(Arguments& arguments) {
  const Parameters given("filesizeformat", arguments, {"value", "binary"}, 1);
  const std::optional<double> bytes = float_of(given[0]);
  if (!bytes || !std::isfinite(*bytes)) throw Failure("filesizeformat: expected a number");
  const bool binary = given.flag(1);
  const double base = binary ? 1024 : 1000;
  if (*bytes == 1) return "1 Byte";
  if (*bytes < base) {
    if (std::abs(*bytes) >= 9.2e18) throw Failure("an integer does not fit into 64 bits");
    return fmt::format("{} Bytes", static_cast<std::int64_t>(*bytes));
  }
  double unit = base;
  char prefix = 0;
  for (const char each : std::string_view(binary ? "KMGTPEZY" : "kMGTPEZY")) {
    unit *= base;
    prefix = each;
    if (*bytes < unit) break;
  }
  return format_float(base * *bytes / unit, {.type = 'f', .precision = 1}) + " " + prefix +
         (binary ? "iB" : "B");
}

}  // namespace

std::span<const NamedFilter> number_filters() {
  static constexpr NamedFilter filters[] = {
      {"abs", filter_abs},     {"filesizeformat", filter_filesizeformat},
      {"float", filter_float}, {"int", filter_int},
      {"round", filter_round},
  };
  return filters;
}

}  // namespace dpo::text::jinja
