#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/jinja/budget.h"
#include "text/jinja/characters.h"
#include "text/jinja/objects.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {
namespace {

struct Conversion {
  bool left = false, plus = false, space = false, alternate = false, zero = false;
  std::int64_t width = 0;
  std::int64_t precision = -1;
  char type = 0;
};

class PercentFormatter {
 public:
  PercentFormatter(const std::string& text, const Value& value, bool markup)
      : text_(text), value_(value), markup_(markup) {}

  std::string format() {
    while (at_ < text_.size()) {
      const std::size_t percent = std::min(text_.find('%', at_), text_.size());
      charge_text(out_.size(), percent - at_);
      out_.append(text_, at_, percent - at_);
      at_ = percent;
      if (at_ < text_.size()) convert();
    }
    const bool all_used = is_tuple() ? used_ == value_.items().size() : used_ > 0 || is_mapping();
    if (!all_used) throw Failure("not all arguments converted during string formatting");
    return std::move(out_);
  }

 private:
  bool is_tuple() const { return value_.kind() == Kind::kTuple; }
  // Returns whether Python treats the value as a mapping here: all types with items except tuples and
  // strings.
  bool is_mapping() const {
    return value_.is_dict() || value_.is_list() || value_.is_undefined() || object_as<RangeObject>(value_);
  }

  char take() {
    if (at_ >= text_.size()) throw Failure("incomplete format");
    return text_[at_++];
  }

  Value next_value() {
    if (keyed_) return *std::exchange(keyed_, std::nullopt);
    const std::size_t count = is_tuple() ? value_.items().size() : 1;
    if (used_ >= count) throw Failure("not enough arguments for format string");
    ++used_;
    return is_tuple() ? value_.items()[used_ - 1] : value_;
  }

  void read_key() {
    if (!is_mapping()) throw Failure("format requires a mapping");
    std::string key;
    for (int open = 1;;) {
      if (at_ >= text_.size()) throw Failure("incomplete format key");
      const char c = take();
      open += c == '(' ? 1 : c == ')' ? -1 : 0;
      if (open == 0) break;
      key += c;
    }
    if (value_.is_undefined()) refuse_undefined(value_);
    const Value* found = value_.find(key);
    if (!found) throw Failure(fmt::format("no key '{}' to format", key));
    keyed_ = *found;
    used_ = 1;
  }

  std::int64_t read_number(char first) {
    if (first == '*') {
      const Value number = next_value();
      if (!number.is_integer()) throw Failure("* wants int");
      if (std::abs(number.number()) > INT32_MAX) throw Failure("width too big");
      return number.integer();
    }
    std::int64_t number = 0;
    for (--at_; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      number = number * 10 + (text_[at_] - '0');
      if (number > INT32_MAX) throw Failure("width too big");
    }
    return number;
  }

  Conversion read_conversion() {
    Conversion conversion;
    char c = take();
    if (c == '(') {
      read_key();
      c = take();
    }
    for (;; c = take()) {
      if (c == '-')
        conversion.left = true;
      else if (c == '+')
        conversion.plus = true;
      else if (c == ' ')
        conversion.space = true;
      else if (c == '#')
        conversion.alternate = true;
      else if (c == '0')
        conversion.zero = true;
      else
        break;
    }
    if (c == '*' || (c >= '1' && c <= '9')) {
      conversion.width = read_number(c);
      if (conversion.width < 0) {
        conversion.left = true;
        conversion.width = -conversion.width;
      }
      c = take();
    }
    if (c == '.') {
      c = take();
      conversion.precision = 0;
      if (c == '*' || (c >= '0' && c <= '9')) {
        conversion.precision = std::max<std::int64_t>(read_number(c), 0);
        c = take();
      }
    }
    if (c == 'h' || c == 'l' || c == 'L') c = take();
    conversion.type = c;
    return conversion;
  }

  void convert() {
    const std::size_t start = ++at_;
    const Conversion conversion = read_conversion();
    switch (conversion.type) {
      case '%':
        if (at_ > start + 1) throw Failure("unsupported format character '%'");
        out_ += '%';
        break;
      case 's':
      case 'r':
      case 'a': add_text(conversion, text_of(next_value(), conversion.type)); break;
      case 'c': add_text(conversion, character_of(next_value())); break;
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X': add_integer(conversion, next_value()); break;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': add_float(conversion, next_value()); break;
      default: throw Failure(fmt::format("unsupported format character '{}'", conversion.type));
    }
  }

  std::string text_of(const Value& value, char type) const {
    if (type == 'a') throw Failure("%a is not supported");
    if (markup_) return type == 's' ? escape(value).string() : escape_html(repr(value));
    return type == 's' ? str(value) : repr(value);
  }

  static std::string character_of(const Value& value) {
    if (value.is_string() && count_characters(value.string()) == 1) return value.string();
    if (!value.is_integer()) throw Failure("%c requires int or char");
    return format_value(value, "c");
  }

  void add_text(const Conversion& conversion, std::string text) {
    if (conversion.precision >= 0)
      text.resize(byte_of_character(text, static_cast<std::size_t>(conversion.precision)));
    add_padded(conversion, "", text, ' ');
  }

  void add_integer(const Conversion& conversion, const Value& value) {
    const bool decimal = conversion.type == 'd' || conversion.type == 'i' || conversion.type == 'u';
    if (value.is_undefined()) refuse_undefined(value);
    if (!value.is_integer() && !(decimal && value.is_number()))
      throw Failure(
          fmt::format("%{} format: an integer is required, not {}", conversion.type, type_name(value)));
    if (!value.is_integer() && !(std::abs(value.number()) < 9.2e18))
      throw Failure("%d: the number is too large");
    const std::int64_t number =
        value.is_integer() ? value.integer() : static_cast<std::int64_t>(value.number());
    const std::uint64_t size =
        number < 0 ? ~static_cast<std::uint64_t>(number) + 1 : static_cast<std::uint64_t>(number);
    std::string digits = conversion.type == 'x'   ? fmt::format("{:x}", size)
                         : conversion.type == 'X' ? fmt::format("{:X}", size)
                         : conversion.type == 'o' ? fmt::format("{:o}", size)
                                                  : std::to_string(size);
    if (const auto least = static_cast<std::size_t>(std::max<std::int64_t>(conversion.precision, 0));
        digits.size() < least) {
      charge(least);
      digits.insert(0, least - digits.size(), '0');
    }
    std::string prefix = sign_of_number(conversion, number < 0);
    if (conversion.alternate && !decimal) prefix += std::string("0") + conversion.type;
    add_padded(conversion, prefix, digits, conversion.zero ? '0' : ' ');
  }

  void add_float(const Conversion& conversion, const Value& value) {
    if (value.is_undefined()) refuse_undefined(value);
    if (!value.is_number()) throw Failure(fmt::format("must be real number, not {}", type_name(value)));
    const double number = value.number();
    const bool negative = std::signbit(number) && !std::isnan(number);
    charge(static_cast<std::uint64_t>(std::max<std::int64_t>(conversion.precision, 0)));
    const std::string digits =
        format_float(negative ? -number : number,
                     {.type = conversion.type,
                      .precision = conversion.precision < 0 ? 6 : static_cast<int>(conversion.precision),
                      .alternate = conversion.alternate});
    add_padded(conversion, sign_of_number(conversion, negative), digits, conversion.zero ? '0' : ' ');
  }

  static std::string sign_of_number(const Conversion& conversion, bool negative) {
    return negative ? "-" : conversion.plus ? "+" : conversion.space ? " " : "";
  }

  void add_padded(const Conversion& conversion, const std::string& prefix, const std::string& body,
                  char fill) {
    const auto size = static_cast<std::int64_t>(count_characters(prefix) + count_characters(body));
    const auto missing = static_cast<std::size_t>(std::max<std::int64_t>(conversion.width - size, 0));
    charge_text(out_.size(), prefix.size() + body.size() + missing);
    if (!conversion.left && fill != '0') out_.append(missing, fill);
    out_ += prefix;
    if (!conversion.left && fill == '0') out_.append(missing, fill);
    out_ += body;
    if (conversion.left) out_.append(missing, ' ');
  }

  const std::string& text_;
  const Value& value_;
  const bool markup_;
  std::string out_;
  std::size_t at_ = 0;
  std::size_t used_ = 0;
  std::optional<Value> keyed_;
};

}  // namespace

std::string percent_format(const std::string& text, const Value& value, bool markup) {
  return PercentFormatter(text, value, markup).format();
}

}  // namespace dpo::text::jinja
