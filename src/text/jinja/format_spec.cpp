#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/jinja/budget.h"
#include "text/jinja/characters.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {
namespace {

constexpr std::int64_t kLargestWidth = INT32_MAX;

// A format specification: [[fill]align][sign][z][#][0][width][grouping][.precision][type]
struct Spec {
  std::string fill = " ";
  char align = 0;
  char sign = '-';
  bool alternate = false;
  std::int64_t width = 0;
  char grouping = 0;
  std::int64_t precision = -1;
  char type = 0;
};

bool is_align(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

class SpecReader {
 public:
  explicit SpecReader(const std::string& text) : text_(text) {}

  Spec read() {
    Spec spec;
    const std::size_t first = text_.empty() ? 0 : code_point_at(text_, 0).length;
    const bool has_fill = first < text_.size() && is_align(text_[first]);
    if (has_fill) {
      spec.fill = text_.substr(0, first);
      spec.align = text_[first];
      at_ = first + 1;
    } else if (is_align(peek())) {
      spec.align = take();
    }
    if (peek() == '+' || peek() == '-' || peek() == ' ') spec.sign = take();
    if (peek() == 'z') throw Failure("the format option z is not supported");
    if (peek() == '#') {
      spec.alternate = true;
      take();
    }
    if (peek() == '0' && !has_fill) {
      take();
      spec.fill = "0";
      zero_ = spec.align == 0;
      if (zero_) spec.align = '=';
    }
    spec.width = std::max<std::int64_t>(number(), 0);
    if (peek() == ',' || peek() == '_') spec.grouping = take();
    if (peek() == ',' || peek() == '_') throw Failure("Cannot specify both ',' and '_'.");
    if (peek() == '.') {
      take();
      spec.precision = number();
      if (spec.precision < 0) throw Failure("Format specifier missing precision");
    }
    if (text_.size() - at_ > 1) throw Failure(fmt::format("Invalid format specifier '{}'", text_));
    if (at_ < text_.size()) spec.type = take();
    return spec;
  }

  bool zero_flag() const { return zero_; }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  char take() { return text_[at_++]; }

  std::int64_t number() {
    std::int64_t value = -1;
    while (peek() >= '0' && peek() <= '9') {
      value = std::max<std::int64_t>(value, 0) * 10 + (take() - '0');
      if (value > kLargestWidth) throw Failure("Too many decimal digits in format string");
    }
    return value;
  }

  const std::string& text_;
  std::size_t at_ = 0;
  bool zero_ = false;
};

std::string fill_of(const Spec& spec, std::int64_t count) {
  std::string out;
  if (count > 0) charge(static_cast<std::uint64_t>(count), spec.fill.size());
  for (std::int64_t i = 0; i < count; ++i) out += spec.fill;
  return out;
}

// Pads a number or text. `prefix` (sign, 0x) comes before the fill if the alignment is '='.
std::string pad(const Spec& spec, const std::string& prefix, const std::string& body, char default_align) {
  const std::int64_t missing = spec.width - static_cast<std::int64_t>(count_characters(prefix + body));
  const char align = spec.align ? spec.align : default_align;
  if (missing <= 0) return prefix + body;
  if (align == '<') return prefix + body + fill_of(spec, missing);
  if (align == '>') return fill_of(spec, missing) + prefix + body;
  if (align == '=') return prefix + fill_of(spec, missing) + body;
  return fill_of(spec, missing / 2) + prefix + body + fill_of(spec, missing - missing / 2);
}

std::string sign_of(const Spec& spec, bool negative) {
  if (negative) return "-";
  return spec.sign == '-' ? "" : std::string(1, spec.sign);
}

// Groups the digits before the point. With zeros as the fill, adds zeros and groups them too until the width
// is reached.
std::string group(std::string digits, char separator, std::size_t every, std::int64_t min_size) {
  const std::size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  const std::string rest = digits.substr(whole);
  digits.resize(whole);
  std::string out;  // from its end to its start
  std::size_t count = 0;
  const auto size = [&] { return static_cast<std::int64_t>(out.size() + rest.size()); };
  while (!digits.empty() || size() < min_size) {
    if (count > 0 && count % every == 0) out += separator;
    out += digits.empty() ? '0' : digits.back();
    if (!digits.empty()) digits.pop_back();
    ++count;
  }
  std::ranges::reverse(out);
  return out + rest;
}

std::string number_text(const Spec& spec, bool negative, const std::string& prefix, std::string digits,
                        std::size_t group_every) {
  const std::string sign = sign_of(spec, negative) + prefix;
  if (spec.grouping) {
    const bool zeros = spec.fill == "0" && spec.align == '=';
    const std::int64_t room = spec.width - static_cast<std::int64_t>(sign.size());
    if (zeros) charge(static_cast<std::uint64_t>(spec.width), 2);
    digits = group(digits, spec.grouping, group_every, zeros ? room : 0);
  }
  return pad(spec, sign, digits, '>');
}

std::string format_integer(std::int64_t value, const Spec& spec) {
  if (spec.precision >= 0) throw Failure("Precision not allowed in integer format specifier");
  const std::uint64_t size =
      value < 0 ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
  switch (spec.type) {
    case 'b':
      if (spec.grouping == ',') throw Failure("Cannot specify ',' with 'b'.");
      return number_text(spec, value < 0, spec.alternate ? "0b" : "", fmt::format("{:b}", size), 4);
    case 'o':
      if (spec.grouping == ',') throw Failure("Cannot specify ',' with 'o'.");
      return number_text(spec, value < 0, spec.alternate ? "0o" : "", fmt::format("{:o}", size), 4);
    case 'x':
    case 'X':
      if (spec.grouping == ',') throw Failure("Cannot specify ',' with 'x'.");
      return number_text(spec, value < 0, spec.alternate ? (spec.type == 'x' ? "0x" : "0X") : "",
                         spec.type == 'x' ? fmt::format("{:x}", size) : fmt::format("{:X}", size), 4);
    case 'c': {
      if (spec.sign != '-' || spec.alternate)
        throw Failure("Sign or '#' not allowed with integer format specifier 'c'");
      if (spec.grouping) throw Failure("Cannot specify ',' with 'c'.");
      if (value < 0 || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
        throw Failure("%c arg not in range");
      std::string text;
      append_utf8(text, static_cast<char32_t>(value));
      return pad(spec, "", text, '>');
    }
    default:
      if (spec.type == 'n' && spec.grouping) throw Failure("Cannot specify ',' with 'n'.");
      return number_text(spec, value < 0, "", std::to_string(size), 3);
  }
}

std::string format_number(double value, const Spec& spec) {
  if (spec.type == 'n' && spec.grouping) throw Failure("Cannot specify ',' with 'n'.");
  FloatStyle style{.type = spec.type, .alternate = spec.alternate};
  if (spec.type == 'n') style.type = 'g';
  if (spec.type == 0) {
    style.type = spec.precision < 0 ? 'r' : 'g';
    style.keep_point = true;
  }
  if (spec.precision >= 0) style.precision = static_cast<int>(spec.precision);
  charge(static_cast<std::uint64_t>(style.precision));
  const bool negative = std::signbit(value) && !std::isnan(value);
  return number_text(spec, negative, "", format_float(negative ? -value : value, style), 3);
}

std::string format_text_value(const std::string& text, Spec spec, bool zero_flag) {
  if (spec.type && spec.type != 's')
    throw Failure(fmt::format("Unknown format code '{}' for object of type 'str'", spec.type));
  if (spec.sign != '-') throw Failure("Sign not allowed in string format specifier");
  if (spec.alternate) throw Failure("Alternate form (#) not allowed in string format specifier");
  if (spec.grouping) throw Failure("Cannot specify ',' with 's'.");
  if (zero_flag) spec.align = '<';
  if (spec.align == '=') throw Failure("'=' alignment not allowed in string format specifier");
  const std::string shown =
      spec.precision < 0 ? text
                         : text.substr(0, byte_of_character(text, static_cast<std::size_t>(spec.precision)));
  return pad(spec, "", shown, '<');
}

bool is_one_of(char type, std::string_view types) { return types.find(type) != types.npos; }

}  // namespace

std::string format_float(double number, const FloatStyle& style) {
  const bool upper = style.type == 'E' || style.type == 'F' || style.type == 'G';
  if (!std::isfinite(number)) {
    const std::string text = float_repr(number) + (style.type == '%' ? "%" : "");
    return upper ? to_upper(text) : text;
  }
  if (style.type == 'r') return float_repr(number);
  if (style.type == '%')
    return format_float(number * 100,
                        {.type = 'f', .precision = style.precision, .alternate = style.alternate}) +
           "%";
  const char format[] = {'%', style.alternate ? '#' : '-', '.', '*', style.type, '\0'};
  const int precision = is_one_of(style.type, "gG") && style.precision == 0 ? 1 : style.precision;
  const int size = std::snprintf(nullptr, 0, format, precision, number);
  std::string text(static_cast<std::size_t>(size), '\0');
  std::snprintf(text.data(), text.size() + 1, format, precision, number);
  if (style.keep_point && text.find_first_of(".e") == text.npos) {
    // A float must look like one: 1.0, or 1e+01 if the precision is too small for that.
    if (static_cast<int>(text.size()) - (text[0] == '-') < precision) return text + ".0";
    const std::string digits = text.substr(text[0] == '-');
    std::string mantissa = digits.substr(0, 1) + "." + digits.substr(1);
    while (mantissa.ends_with('0')) mantissa.pop_back();
    if (mantissa.ends_with('.')) mantissa.pop_back();
    return fmt::format("{}{}e+{:02}", text[0] == '-' ? "-" : "", mantissa, digits.size() - 1);
  }
  return text;
}

std::string format_value(const Value& value, const std::string& spec) {
  if (spec.empty()) return str(value);
  SpecReader reader(spec);
  const Spec parsed = reader.read();
  if (value.is_string()) return format_text_value(value.string(), parsed, reader.zero_flag());
  if (value.is_integer() && is_one_of(parsed.type, std::string_view("\0bcdoxXn", 8)))
    return format_integer(value.integer(), parsed);
  if (value.is_number() &&
      (is_one_of(parsed.type, "eEfFgG%") || (!value.is_integer() && (!parsed.type || parsed.type == 'n'))))
    return format_number(value.number(), parsed);
  if (!value.is_number())
    throw Failure(fmt::format("unsupported format string passed to {}.__format__", type_name(value)));
  throw Failure(
      fmt::format("Unknown format code '{}' for object of type '{}'", parsed.type, type_name(value)));
}

}  // namespace dpo::text::jinja
