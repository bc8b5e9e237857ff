#include <cerrno>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/jinja/arguments.h"
#include "text/jinja/builtins.h"
#include "text/jinja/characters.h"
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

// Returns whether all underscores are single and between digits.
bool has_valid_underscores(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') continue;
    const bool inside = i > 0 && i + 1 < text.size();
    if (!inside || !is_ascii_digit(text[i - 1]) || !is_ascii_digit(text[i + 1])) return false;
  }
  return true;
}

// Removes whitespace and underscores as Python's int(text) and float(text) do. Returns "" if an underscore is
// in a wrong place.
std::string plain_number(std::string_view text) {
  text = strip(text, Ends::kBoth);
  if (!has_valid_underscores(text)) return "";
  std::string plain(text);
  std::erase(plain, '_');
  return plain;
}

bool has_sign(std::string_view text) { return text.starts_with('-') || text.starts_with('+'); }

// Parses like Python's int(text). Returns nullopt where Python raises a ValueError.
std::optional<std::int64_t> parse_integer(std::string_view text) {
  const std::string plain = plain_number(text);
  const std::string_view digits = std::string_view(plain).substr(has_sign(plain) ? 1 : 0);
  if (digits.empty() || digits.find_first_not_of("0123456789") != digits.npos) return std::nullopt;
  errno = 0;
  const long long number = std::strtoll(plain.c_str(), nullptr, 10);
  if (errno == ERANGE) throw Failure("an integer does not fit into 64 bits");
  return number;
}

// Parses like Python's float(text). Returns nullopt where Python raises a ValueError.
std::optional<double> parse_float(std::string_view text) {
  const std::string plain = plain_number(text);
  const std::string word = to_lower(std::string_view(plain).substr(has_sign(plain) ? 1 : 0));
  // strtod would also read hexadecimal and other numbers that Python rejects.
  const bool named = word == "inf" || word == "infinity" || word == "nan";
  if (word.empty() || (!named && word.find_first_not_of("0123456789.e+-") != word.npos)) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(plain.c_str(), &end);
  return *end == '\0' ? std::optional<double>(value) : std::nullopt;
}

std::optional<double> float_of(const Value& value) {
  if (value.is_undefined()) refuse_undefined(value);
  if (value.is_number()) return value.number();
  return value.is_string() ? parse_float(value.string()) : std::nullopt;
}

Value filter_int(Arguments& arguments) {
  const Parameters given("int", arguments, {"value", "default"}, 1);
  const Value& value = given[0];
  if (value.is_integer()) return value.integer();
  if (value.is_string())
    if (const auto number = parse_integer(value.string())) return *number;
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
  const std::int64_t digits = given.integer(1, 0);
  const Value& value = given[0];
  const Value method = given.get(2, "common");
  const bool ceil = equal(method, "ceil"), floor = equal(method, "floor");
  if (!ceil && !floor && !equal(method, "common")) throw Failure("method must be common, ceil or floor");
  if (value.is_undefined()) refuse_undefined(value);
  if (!value.is_number()) throw Failure(fmt::format("type {} cannot be rounded", type_name(value)));
  constexpr std::int64_t kMostDigits = 15;
  if (digits < 0 || digits > kMostDigits) throw Failure("round: a precision beyond 0 to 15 is not supported");
  if (!ceil && !floor) {
    if (value.is_integer()) return value.integer();
    // The C library rounds the exact value with halves to even, as Python does.
    const std::string text = fixed_text(value.number(), 'f', static_cast<int>(digits));
    return std::isfinite(value.number()) ? std::strtod(text.c_str(), nullptr) : value.number();
  }
  const double factor = std::pow(10.0, static_cast<double>(digits));
  const double scaled = value.number() * factor;
  constexpr double kLargest = 9e15;  // larger integers are not exact
  if (!(std::abs(scaled) < kLargest)) throw Failure("round: the number is too large");
  const double whole = ceil ? std::ceil(scaled) : std::floor(scaled);
  return (whole + 0.0) / factor;  // -0.0 becomes 0.0, as for Python's integers
}

}  // namespace

std::span<const NamedFilter> number_filters() {
  static constexpr NamedFilter filters[] = {
      {"abs", filter_abs}, {"float", filter_float}, {"int", filter_int}, {"round", filter_round}};
  return filters;
}

}  // namespace dpo::text::jinja
