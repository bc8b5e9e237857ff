#include <algorithm>
#include <charconv>

#include "base/utf8.h"
#include "text/jinja/value.h"

namespace dpo::text::jinja {
namespace {

// JSON as Python reads it, but no NaN and no infinity. A data set is parsed with it, so strings without an
// escape are copied at once.
class JsonParser {
 public:
  explicit JsonParser(std::string_view text) : text_(text) {}

  Value run() {
    if (!is_valid_utf8(text_)) fail(first_invalid_utf8(text_));
    const Value value = parse(0);
    skip_space();
    if (at_ != text_.size()) fail(at_);
    return value;
  }

 private:
  [[noreturn]] static void fail(std::size_t at) {
    throw Failure("not valid JSON, at byte " + std::to_string(at + 1));
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_space() {
    while (peek() == ' ' || peek() == '\n' || peek() == '\r' || peek() == '\t') ++at_;
  }

  void expect(char c) {
    skip_space();
    if (peek() != c) fail(at_);
    ++at_;
  }

  // Whether the next character is `c`; then it is passed.
  bool pass(char c) {
    skip_space();
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  Value parse(std::uint32_t depth) {
    if (depth > kMaxDepth) throw Failure("the JSON is nested too deeply");
    skip_space();
    switch (peek()) {
      case '{': return parse_object(depth);
      case '[': return parse_array(depth);
      case '"': return Value(parse_string());
      case 't': return word("true", true);
      case 'f': return word("false", false);
      case 'n': return word("null", {});
      default: return parse_number();
    }
  }

  Value word(std::string_view name, Value value) {
    if (!text_.substr(at_).starts_with(name)) fail(at_);
    at_ += name.size();
    return value;
  }

  Value parse_object(std::uint32_t depth) {
    Dict dict;
    ++at_;
    if (pass('}')) return dict;
    do {
      skip_space();
      if (peek() != '"') fail(at_);
      Value key(parse_string());
      expect(':');
      dict.set(std::move(key), parse(depth + 1));
    } while (pass(','));
    expect('}');
    return dict;
  }

  Value parse_array(std::uint32_t depth) {
    Values items;
    ++at_;
    if (pass(']')) return Value::list({});
    do items.push_back(parse(depth + 1));
    while (pass(','));
    expect(']');
    return Value::list(std::move(items));
  }

  std::string parse_string() {
    std::string out;
    for (++at_;;) {
      const std::size_t begin = at_;
      while (at_ < text_.size() && is_plain(text_[at_])) ++at_;
      out += text_.substr(begin, at_ - begin);
      if (peek() == '"') {
        ++at_;
        return out;
      }
      if (peek() != '\\') fail(at_);
      ++at_;
      append_escape(out);
    }
  }

  static bool is_plain(char c) { return c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20; }

  void append_escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt", kCharacters = "\"\\/\b\f\n\r\t";
    const char name = peek();
    ++at_;
    if (name == 'u') return append_utf8(out, parse_code());
    const std::size_t found = name == '\0' ? kNames.npos : kNames.find(name);
    if (found == kNames.npos) fail(at_ - 1);
    out += kCharacters[found];
  }

  char32_t parse_code() {
    const std::uint32_t first = hex();
    if (first < 0xD800 || first > 0xDFFF) return first;
    // One half of a pair alone is no character.
    if (first > 0xDBFF || !text_.substr(at_).starts_with("\\u")) fail(at_ - 1);
    at_ += 2;
    const std::uint32_t second = hex();
    if (second < 0xDC00 || second > 0xDFFF) fail(at_ - 1);
    return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
  }

  std::uint32_t hex() {
    std::uint32_t code = 0;
    const std::string_view digits = text_.substr(std::min(at_, text_.size()), 4);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (error != std::errc() || end != digits.data() + 4 || digits[0] == '-') fail(at_);
    at_ += 4;
    return code;
  }

  std::size_t digits() {
    const std::size_t begin = at_;
    while (is_ascii_digit(peek())) ++at_;
    if (at_ == begin) fail(at_);
    return at_ - begin;
  }

  Value parse_number() {
    const std::size_t begin = at_;
    if (peek() == '-') ++at_;
    const bool leading_zero = peek() == '0';
    if (digits() > 1 && leading_zero) fail(begin);
    const bool is_integer = peek() != '.' && peek() != 'e' && peek() != 'E';
    if (peek() == '.') ++at_, digits();
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      digits();
    }
    return is_integer ? number_of<std::int64_t>(begin) : number_of<double>(begin);
  }

  template <class Number>
  Value number_of(std::size_t begin) const {
    Number number{};
    const std::string_view text = text_.substr(begin, at_ - begin);
    if (std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc()) return number;
    throw Failure(std::is_integral_v<Number> ? "an integer of the JSON does not fit into 64 bits"
                                             : "a number of the JSON is out of range");
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Value parse_json(std::string_view text) { return JsonParser(text).run(); }

}  // namespace dpo::text::jinja
