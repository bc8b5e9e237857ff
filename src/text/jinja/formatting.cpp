#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/jinja/budget.h"
#include "text/jinja/methods.h"
#include "text/jinja/objects.h"
#include "text/jinja/python.h"

namespace dpo::text::jinja {
namespace {

// How str.format and the % operator write a value. Other options of Python's are rejected.
struct Format {
  char align = 0;       // < > or ^, or 0 for the usual one
  bool zeros = false;   // fills with zeros after the sign
  bool commas = false;  // groups digits by thousands
  std::int64_t width = 0;
  std::int64_t precision = -1;  // -1: none given
  char type = 0;                // one of s d e f g %, or 0
};

bool is_one_of(char c, std::string_view characters) { return characters.find(c) != characters.npos; }

// Reads the parts of a format from a text.
class FormatReader {
 public:
  FormatReader(std::string_view text, std::size_t at) : text_(text), at_(at) {}

  std::size_t at() const { return at_; }
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  char take() { return text_[at_++]; }
  bool skip(char c) { return peek() == c && ++at_; }

  std::int64_t number() {
    constexpr std::int64_t kLargest = INT32_MAX;
    std::int64_t value = 0;
    while (is_ascii_digit(peek())) {
      value = 10 * value + (take() - '0');
      if (value > kLargest) throw Failure("a number in a format is too large");
    }
    return value;
  }

  void width_and_precision(Format& format, bool with_commas) {
    format.width = number();
    format.commas = with_commas && skip(',');
    if (!skip('.')) return;
    if (!is_ascii_digit(peek())) throw Failure("a format has a point but no precision");
    format.precision = number();
  }

 private:
  std::string_view text_;
  std::size_t at_;
};

std::string fill_of(std::int64_t count, char fill) {
  charge(static_cast<std::uint64_t>(count));
  return std::string(static_cast<std::size_t>(count), fill);
}

std::string pad(const Format& format, const std::string& text, char usual_align) {
  const std::int64_t missing = format.width - static_cast<std::int64_t>(count_characters(text));
  if (missing <= 0) return text;
  const char align = format.align ? format.align : usual_align;
  const std::int64_t left = align == '<' ? 0 : align == '>' ? missing : missing / 2;
  return fill_of(left, ' ') + text + fill_of(missing - left, ' ');
}

std::string pad_number(const Format& format, bool negative, std::string digits) {
  if (format.commas) {
    const std::size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
    for (std::size_t at = whole; at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  }
  const std::string sign = negative ? "-" : "";
  const auto size = static_cast<std::int64_t>(sign.size() + digits.size());
  if (format.zeros && format.width > size) return sign + fill_of(format.width - size, '0') + digits;
  return pad(format, sign + digits, '>');
}

std::string format_text(const Format& format, const std::string& text, char usual_align) {
  if (format.precision < 0) return pad(format, text, usual_align);
  return pad(format, text.substr(0, byte_of_character(text, static_cast<std::size_t>(format.precision))),
             usual_align);
}

std::string format_integer(const Format& format, std::int64_t value) {
  std::string digits = std::to_string(value);
  if (value < 0) digits.erase(0, 1);
  return pad_number(format, value < 0, std::move(digits));
}

std::string format_float(const Format& format, double value) {
  constexpr int kUsualPrecision = 6;
  const bool negative = std::signbit(value) && !std::isnan(value);
  const double size = negative ? -value : value;
  const int precision = format.precision < 0 ? kUsualPrecision : static_cast<int>(format.precision);
  charge(static_cast<std::uint64_t>(precision));
  if (format.type == 0) return pad_number(format, negative, float_repr(size));
  if (format.type == '%') return pad_number(format, negative, fixed_text(100 * size, 'f', precision) + "%");
  return pad_number(format, negative, fixed_text(size, format.type, precision));
}

// Reads [<>^][0][width][,][.precision][type].
Format read_specification(const std::string& text) {
  FormatReader reader(text, 0);
  Format format;
  if (is_one_of(reader.peek(), "<>^")) format.align = reader.take();
  format.zeros = reader.skip('0');
  reader.width_and_precision(format, true);
  if (is_one_of(reader.peek(), "sdefg%")) format.type = reader.take();
  const bool valid = reader.at_end() && !(format.zeros && (format.align || format.commas));
  if (!valid) throw Failure(fmt::format("the format specification '{}' is not supported", text));
  return format;
}

std::string format_value(const Value& value, const std::string& specification) {
  if (specification.empty()) return str(value);
  const Format format = read_specification(specification);
  const bool of_text = format.type == 's' || format.type == 0;
  if (value.is_string() && of_text && !format.zeros && !format.commas)
    return format_text(format, value.string(), '<');
  if (value.is_integer() && is_one_of(format.type, {"\0d", 2}) && format.precision < 0)
    return format_integer(format, value.integer());
  const bool of_float = is_one_of(format.type, "efg%") ||
                        (format.type == 0 && value.kind() == Kind::kFloat && format.precision < 0);
  if (value.is_number() && of_float) return format_float(format, value.number());
  throw Failure(
      fmt::format("the format specification '{}' is not supported for {}", specification, type_name(value)));
}

// Computes text % value.
class PercentFormatter {
 public:
  PercentFormatter(const std::string& text, const Value& value) : text_(text), value_(value) {}

  std::string format() {
    std::string out;
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t percent = std::min(text_.find('%', at), text_.size());
      charge_text(out.size(), percent - at);
      out.append(text_, at, percent - at);
      at = percent;
      if (at == text_.size()) break;
      const std::string converted = convert(at);
      charge_text(out.size(), converted.size());
      out += converted;
    }
    const bool all_used = is_tuple() ? used_ == value_.items().size() : used_ > 0 || is_mapping();
    if (!all_used) throw Failure("not all arguments converted during string formatting");
    return out;
  }

 private:
  bool is_tuple() const { return value_.kind() == Kind::kTuple; }
  // Python treats all types with items as mappings here, except tuples and strings.
  bool is_mapping() const { return value_.is_dict() || value_.is_list() || value_.is_undefined(); }

  Value next_value() {
    const std::size_t count = is_tuple() ? value_.items().size() : 1;
    if (used_ >= count) throw Failure("not enough arguments for format string");
    ++used_;
    return is_tuple() ? value_.items()[used_ - 1] : value_;
  }

  Value value_of_key(FormatReader& reader) {
    std::string key;
    while (!reader.at_end() && reader.peek() != ')') key += reader.take();
    if (!reader.skip(')')) throw Failure("incomplete format key");
    if (value_.is_undefined()) refuse_undefined(value_);
    if (!value_.is_dict()) throw Failure("format requires a mapping");
    const Value* found = value_.find(key);
    if (!found) throw Failure(fmt::format("no key '{}' to format", key));
    used_ = 1;
    return *found;
  }

  // Converts %[(key)][-0][width][.precision]type, and moves `at` after it.
  std::string convert(std::size_t& at) {
    FormatReader reader(text_, at + 1);
    const std::size_t first = reader.at();
    std::optional<Value> value;
    if (reader.skip('(')) value = value_of_key(reader);
    Format format;
    for (;;) {
      if (reader.skip('-'))
        format.align = '<';
      else if (reader.skip('0'))
        format.zeros = true;
      else
        break;
    }
    format.zeros = format.zeros && !format.align;
    reader.width_and_precision(format, false);
    if (reader.at_end()) throw Failure("incomplete format");
    format.type = reader.take();
    at = reader.at();
    if (format.type == '%' && at == first + 1) return "%";
    if (!is_one_of(format.type, "srdefg"))
      throw Failure(fmt::format("the format '{}' is not supported", text_.substr(first - 1, at - first + 1)));
    return apply(format, value ? *value : next_value());
  }

  static std::string apply(const Format& format, const Value& value) {
    if (format.type == 's') return format_text(format, str(value), '>');
    if (format.type == 'r') return format_text(format, repr(value), '>');
    if (value.is_undefined()) refuse_undefined(value);
    if (!value.is_number())
      throw Failure(fmt::format("%{} format: a number is required, not {}", format.type, type_name(value)));
    if (format.type != 'd') return format_float(format, value.number());
    if (format.precision >= 0) throw Failure("a precision of %d is not supported");
    if (value.is_integer()) return format_integer(format, value.integer());
    if (!(std::abs(value.number()) < 9.2e18)) throw Failure("%d: the number is too large");
    return format_integer(format, static_cast<std::int64_t>(value.number()));
  }

  const std::string& text_;
  const Value& value_;
  std::size_t used_ = 0;
};

// Replaces the fields {}, {NUMBER} and {NAME} of a text, each with an optional :specification.
class FieldFormatter {
 public:
  explicit FieldFormatter(const Arguments& arguments) : arguments_(arguments) {}

  std::string format(std::string_view text) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const char c = text[at++];
      const bool doubled = at < text.size() && text[at] == c;
      if (c != '{' && c != '}') {
        out += c;
      } else if (doubled) {
        out += c;
        ++at;
      } else if (c == '}') {
        throw Failure("Single '}' encountered in format string");
      } else {
        const std::size_t end = text.find('}', at);
        if (end == text.npos) throw Failure("expected '}' before end of string");
        const std::string field = format_field(text.substr(at, end - at));
        charge_text(out.size(), field.size());
        out += field;
        at = end + 1;
      }
    }
    return out;
  }

 private:
  std::string format_field(std::string_view field) {
    if (field.find_first_of("{[.!") < field.find(':'))
      throw Failure(fmt::format("the format field '{{{}}}' is not supported", field));
    const std::size_t colon = std::min(field.find(':'), field.size());
    const std::string specification(field.substr(std::min(colon + 1, field.size())));
    return format_value(argument(std::string(field.substr(0, colon))), specification);
  }

  const Value& argument(const std::string& name) {
    if (name.find_first_not_of("0123456789") == name.npos) {
      const bool automatic = name.empty();
      if (automatic_.value_or(automatic) != automatic)
        throw Failure("a format cannot have both numbered and unnumbered fields");
      automatic_ = automatic;
      const std::size_t index = automatic ? next_++ : name.size() < 10 ? std::stoull(name) : SIZE_MAX;
      if (index >= arguments_.positional.size()) throw Failure("Replacement index out of range");
      return arguments_.positional[index];
    }
    for (const auto& [key, value] : arguments_.named)
      if (key == name) return value;
    throw Failure(fmt::format("no argument '{}' to format", name));
  }

  const Arguments& arguments_;
  std::optional<bool> automatic_;
  std::size_t next_ = 0;
};

}  // namespace

std::string fixed_text(double number, char type, int precision) {
  if (!std::isfinite(number)) return float_repr(number);
  const char format[] = {'%', '.', '*', type, '\0'};
  const int size = std::snprintf(nullptr, 0, format, precision, number);
  std::string text(static_cast<std::size_t>(size), '\0');
  std::snprintf(text.data(), text.size() + 1, format, precision, number);
  return text;
}

std::string percent_format(const std::string& text, const Value& value) {
  return PercentFormatter(text, value).format();
}

std::string format_string(const std::string& text, const Arguments& arguments) {
  return FieldFormatter(arguments).format(text);
}

}  // namespace dpo::text::jinja
