#include "text/jinja/numbers.h"

#include <cerrno>
#include <cstdlib>
#include <limits>
#include <string>

#include "text/jinja/characters.h"
#include "text/jinja/value.h"

namespace dpo::text::jinja {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  return c >= 'A' && c <= 'Z' ? c - 'A' + 10 : 36;
}

int base_of_prefix(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 0;
  const char letter = static_cast<char>(text[1] | 0x20);
  return letter == 'b' ? 2 : letter == 'o' ? 8 : letter == 'x' ? 16 : 0;
}

// Returns whether all underscores are single and between digits.
bool has_valid_underscores(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') continue;
    if (i == 0 || i + 1 == text.size() || digit_of(text[i - 1]) > 9 || digit_of(text[i + 1]) > 9)
      return false;
  }
  return true;
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text, int base) {
  text = strip(text, Ends::kBoth);
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  const int prefixed = base_of_prefix(text);
  if (prefixed && (base == 0 || base == prefixed)) {
    base = prefixed;
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
  } else if (base == 0) {
    // Like Python: 010 is not a number, but 00 is.
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != text.npos) return std::nullopt;
    base = 10;
  }
  if (text.empty()) return std::nullopt;
  std::int64_t value = 0;
  bool overflow = false, after_digit = false;
  for (const char c : text) {
    if (c == '_' && after_digit) {
      after_digit = false;
      continue;
    }
    const int digit = digit_of(c);
    if (digit >= base) return std::nullopt;
    after_digit = true;
    overflow = overflow || __builtin_mul_overflow(value, base, &value) ||
               __builtin_add_overflow(value, negative ? -digit : digit, &value);
  }
  if (!after_digit) return std::nullopt;
  if (overflow) throw Failure("an integer does not fit into 64 bits");
  return value;
}

std::optional<double> parse_float(std::string_view text) {
  text = strip(text, Ends::kBoth);
  if (text.empty() || !has_valid_underscores(text)) return std::nullopt;
  std::string plain(text);
  std::erase(plain, '_');
  std::string_view unsigned_part = plain;
  const bool negative = plain[0] == '-';
  if (plain[0] == '-' || plain[0] == '+') unsigned_part.remove_prefix(1);
  const std::string word = to_lower(unsigned_part);
  if (word == "inf" || word == "infinity")
    return negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  // strtod would also read hexadecimal and other numbers that Python rejects.
  if (unsigned_part.empty() || unsigned_part.find_first_not_of("0123456789.eE+-") != std::string_view::npos)
    return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(plain.c_str(), &end);
  if (end != plain.c_str() + plain.size()) return std::nullopt;
  return value;
}

}  // namespace dpo::text::jinja
