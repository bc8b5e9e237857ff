#include "config/scalar.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <regex>

#include <fmt/format.h>

namespace dpo::config {
namespace {

using Kind = Node::Kind;

// std::regex recurses once per character; no number is this long.
constexpr std::size_t kLongestNumber = 128;

bool matches(std::string_view text, const std::regex& pattern) {
  return std::regex_match(text.begin(), text.end(), pattern);
}

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
  std::transform(out.begin(), out.end(), out.begin(), [](char c) { return 'A' <= c && c <= 'Z' ? c + 32 : c; });
  return out;
}

// Decimal digits as they are, without sign and leading zeros where those say nothing.
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

// 1:30:00 is sixty-based in YAML 1.1.
std::optional<std::string> sexagesimal_text(std::string_view text, bool negative) {
  std::uint64_t total = 0;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t colon = std::min(text.find(':', start), text.size());
    std::uint64_t part = 0;
    if (std::from_chars(text.data() + start, text.data() + colon, part).ec != std::errc{}) return std::nullopt;
    if (total > (std::numeric_limits<std::uint64_t>::max() - part) / 60) return std::nullopt;
    total = total * 60 + part;
    start = colon + 1;
  }
  return decimal_text(fmt::format("{}", total), negative);
}

// What came is an integer of YAML 1.1; one in another base that does not fit 64 bits stays text.
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
  static const std::regex pattern(
      "[-+]?(0b[01_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|[1-9][0-9_]*(:[0-5]?[0-9])+)");
  return matches(text, pattern);
}

bool is_yaml_float(std::string_view text) {
  static const std::regex pattern(
      "[-+]?[0-9][0-9_]*\\.[0-9_]*([eE][-+]?[0-9]+)?|[-+]?[0-9]+(_[0-9]+)*[eE][-+]?[0-9]+|"
      "\\.[0-9][0-9_]*([eE][-+][0-9]+)?|[-+]?\\.(inf|Inf|INF)|\\.(nan|NaN|NAN)");
  return matches(text, pattern);
}

bool is_word_int(std::string_view text) {
  static const std::regex pattern("[-+]?(0|[1-9](_?[0-9])*)");
  return matches(text, pattern);
}

bool is_word_float(std::string_view text) {
  static const std::regex pattern(
      "[-+]?((0|[1-9](_?[0-9])*)\\.|(0|[1-9](_?[0-9])*)?\\.[0-9](_?[0-9])*|"
      "((0|[1-9](_?[0-9])*)\\.?|(0|[1-9](_?[0-9])*)?\\.[0-9](_?[0-9])*)[eE][-+]?[0-9](_?[0-9])*|"
      "[iI][nN][fF]|[nN][aA][nN])");
  return matches(text, pattern);
}

bool any_of(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), text) != names.end();
}

}  // namespace

Node yaml_scalar(std::string_view text, Origin origin) {
  if (any_of(text, {"", "~", "null", "Null", "NULL"})) return make_scalar(Kind::Null, "null", std::move(origin));
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

Node word_scalar(std::string text, Origin origin) {
  const std::string low = text.size() <= 5 ? lower(text) : std::string();
  if (low == "null") return make_scalar(Kind::Null, "null", std::move(origin));
  if (low == "true" || low == "false") return make_scalar(Kind::Bool, low, std::move(origin));
  if (may_be_number(text)) {
    if (is_word_int(text)) {
      const std::string digits = without_underscores(text.substr(text.find_first_not_of("+-")));
      return make_scalar(Kind::Int, decimal_text(digits, text.front() == '-'), std::move(origin));
    }
    if (is_word_float(text)) return make_scalar(Kind::Float, canonical_float(text), std::move(origin));
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
