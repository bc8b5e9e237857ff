#include "config/scalar.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace dpo::config {
namespace {

using Kind = Node::Kind;

constexpr std::size_t kLongestNumber = 128;  // characters; longer text is not a number
constexpr std::string_view kDigits = "0123456789";

// Reads a text from its start, one class of characters at a time.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(text) {}

  bool at_end() const { return rest_.empty(); }

  bool eat(std::string_view any_of) {
    const bool found = !rest_.empty() && any_of.find(rest_.front()) != std::string_view::npos;
    if (found) rest_.remove_prefix(1);
    return found;
  }

  bool eat_word(std::string_view word) {
    const bool found = rest_.starts_with(word);
    if (found) rest_.remove_prefix(word.size());
    return found;
  }

  bool eat_run(std::string_view of) {
    const std::size_t length = std::min(rest_.find_first_not_of(of), rest_.size());
    rest_.remove_prefix(length);
    return length > 0;
  }

  // Reads digits such as 20_000, with underscores only between digits.
  bool eat_digits() {
    if (!eat_run(kDigits)) return false;
    while (rest_.size() > 1 && rest_[0] == '_' && kDigits.find(rest_[1]) != std::string_view::npos) {
      eat("_");
      eat_run(kDigits);
    }
    return true;
  }

  // Reads digits without leading zeros.
  bool eat_whole() { return rest_.starts_with('0') ? eat("0") : eat_digits(); }

 private:
  std::string_view rest_;
};

bool may_be_number(std::string_view text) {
  return !text.empty() && text.size() <= kLongestNumber && text.find_first_of("+-.0123456789iInN") == 0;
}

std::string without_underscores(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '_');
  return digits;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return 'A' <= c && c <= 'Z' ? c + 32 : c; });
  return out;
}

// Formats decimal digits without leading zeros; zero has no sign.
std::string decimal_text(std::string_view digits, bool negative) {
  const std::size_t first = std::min(digits.find_first_not_of('0'), digits.size() - 1);
  const std::string_view rest = digits.substr(first);
  return (negative && rest != "0" ? "-" : "") + std::string(rest);
}

std::optional<std::string> based_text(std::string_view digits, int base, bool negative) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return decimal_text(fmt::format("{}", value), negative);
}

// Converts a base-60 number of YAML 1.1, such as 1:30:00.
std::optional<std::string> sexagesimal_text(std::string_view text, bool negative) {
  std::uint64_t total = 0;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t colon = std::min(text.find(':', start), text.size());
    std::uint64_t part = 0;
    if (std::from_chars(text.data() + start, text.data() + colon, part).ec != std::errc{})
      return std::nullopt;
    if (total > (std::numeric_limits<std::uint64_t>::max() - part) / 60) return std::nullopt;
    total = total * 60 + part;
    start = colon + 1;
  }
  return decimal_text(fmt::format("{}", total), negative);
}

// Converts an integer of YAML 1.1. One in another base that does not fit into 64 bits remains text.
std::optional<std::string> yaml_int_text(std::string_view written) {
  const std::string clean = without_underscores(written);
  std::string_view digits = clean;
  const bool negative = digits.front() == '-';
  if (negative || digits.front() == '+') digits.remove_prefix(1);
  if (digits.empty()) return std::nullopt;
  if (digits.find(':') != std::string_view::npos) return sexagesimal_text(digits, negative);
  if (digits.starts_with("0x")) return based_text(digits.substr(2), 16, negative);
  if (digits.starts_with("0b")) return based_text(digits.substr(2), 2, negative);
  if (digits.size() > 1 && digits.front() == '0') return based_text(digits, 8, negative);
  return decimal_text(digits, negative);
}

std::string canonical_float(std::string_view written) {
  std::string text = lower(without_underscores(written));
  if (text.front() == '+') text.erase(0, 1);
  if (text.ends_with(".inf")) text.erase(text.size() - 4, 1);
  if (text == ".nan" || text == "-nan") return "nan";
  const std::optional<double> value = to_double(text);
  return value ? float_text(*value) : text;
}

bool is_yaml_int(std::string_view text) {
  Cursor cursor(text);
  cursor.eat("+-");
  if (cursor.eat_word("0b")) return cursor.eat_run("01_") && cursor.at_end();
  if (cursor.eat_word("0x")) return cursor.eat_run("0123456789abcdefABCDEF_") && cursor.at_end();
  if (cursor.eat("0")) return cursor.eat_run("01234567_"), cursor.at_end();
  if (!cursor.eat("123456789")) return false;
  cursor.eat_run("0123456789_");
  while (cursor.eat(":")) {
    const bool tens = cursor.eat("012345");
    if (!cursor.eat(kDigits) && !tens) return false;
  }
  return cursor.at_end();
}

bool is_yaml_float(std::string_view text) {
  Cursor cursor(text);
  const bool sign = cursor.eat("+-");
  const bool whole = cursor.eat_run(kDigits) && (cursor.eat_run("0123456789_"), true);
  const bool point = cursor.eat(".");
  if (!whole && point && (cursor.eat_word("inf") || cursor.eat_word("Inf") || cursor.eat_word("INF")))
    return cursor.at_end();
  if (!whole && sign) return false;
  if (!whole && point && (cursor.eat_word("nan") || cursor.eat_word("NaN") || cursor.eat_word("NAN")))
    return cursor.at_end();
  if (!whole && !(point && cursor.eat(kDigits))) return false;
  cursor.eat_run(point ? "0123456789_" : "");
  if (!cursor.eat("eE")) return point && cursor.at_end();
  const bool exponent_sign = cursor.eat("+-");
  return (whole || exponent_sign) && cursor.eat_run(kDigits) && cursor.at_end();
}

bool is_argument_int(std::string_view text) {
  Cursor cursor(text);
  cursor.eat("+-");
  return cursor.eat_whole() && cursor.at_end();
}

bool is_argument_float(std::string_view text) {
  Cursor cursor(text);
  cursor.eat("+-");
  const std::string_view name = text.substr(text.find_first_not_of("+-") == 0 ? 0 : 1);
  if (lower(name) == "inf" || lower(name) == "nan") return true;
  const bool whole = cursor.eat_whole();
  const bool point = cursor.eat(".");
  const bool fraction = point && cursor.eat_digits();
  if (!whole && !fraction) return false;
  if (!cursor.eat("eE")) return point && cursor.at_end();
  cursor.eat("+-");
  return cursor.eat_digits() && cursor.at_end();
}

bool any_of(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

}  // namespace

Node yaml_scalar(std::string_view text, Origin origin) {
  if (any_of(text, {"", "~", "null", "Null", "NULL"}))
    return make_scalar(Kind::Null, "null", std::move(origin));
  if (any_of(text, {"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"}))
    return make_scalar(Kind::Bool, "true", std::move(origin));
  if (any_of(text, {"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"}))
    return make_scalar(Kind::Bool, "false", std::move(origin));
  if (may_be_number(text)) {
    if (is_yaml_int(text))
      if (auto digits = yaml_int_text(text)) return make_scalar(Kind::Int, *digits, std::move(origin));
    if (is_yaml_float(text)) return make_scalar(Kind::Float, canonical_float(text), std::move(origin));
  }
  return make_scalar(Kind::Text, std::string(text), std::move(origin));
}

Node argument_scalar(std::string text, Origin origin) {
  const std::string low = text.size() <= 5 ? lower(text) : std::string();
  if (low == "null") return make_scalar(Kind::Null, "null", std::move(origin));
  if (low == "true" || low == "false") return make_scalar(Kind::Bool, low, std::move(origin));
  if (may_be_number(text)) {
    if (is_argument_int(text)) {
      const std::string digits = without_underscores(text.substr(text.find_first_not_of("+-")));
      return make_scalar(Kind::Int, decimal_text(digits, text.front() == '-'), std::move(origin));
    }
    if (is_argument_float(text)) return make_scalar(Kind::Float, canonical_float(text), std::move(origin));
  }
  return make_scalar(Kind::Text, std::move(text), std::move(origin));
}

std::optional<std::int64_t> to_int(const std::string& canonical) {
  std::int64_t value = 0;
  const char* const end = canonical.data() + canonical.size();
  const auto result = std::from_chars(canonical.data(), end, value);
  if (result.ec != std::errc{} || result.ptr != end) return std::nullopt;
  return value;
}

std::optional<double> to_double(const std::string& canonical) {
  double value = 0;
  const char* const end = canonical.data() + canonical.size();
  const auto result = std::from_chars(canonical.data(), end, value);
  if (result.ec != std::errc{} || result.ptr != end) return std::nullopt;
  return value;
}

std::string float_text(double value) {
  const std::string text = fmt::format("{}", value);
  return std::isfinite(value) && text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

}  // namespace dpo::config
