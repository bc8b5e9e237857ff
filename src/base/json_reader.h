// Parses JSON for data sets. It is fast for strings without escapes, which are copied in one piece.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace dpo {

// Syntax that was missing where parsing stopped.
enum class JsonExpected {
  Utf8,         // valid UTF-8
  Value,        // any value
  Name,         // the name of a member
  Colon,        // the colon after a name
  EndOfObject,  // the end, or a comma
  EndOfList,    // the end, or a comma
  EndOfString,  // the end, or a character without a backslash
  Escape,       // a valid escape sequence
  SmallNumber,  // a number in the range of double
  EndOfText,    // nothing after the value
  Accepted,     // a value that the handler accepts
};

// Calls the handler with the SAX interface of nlohmann::json (null, boolean, number_integer, number_unsigned,
// number_float, string, key, start_object, end_object, start_array, end_array). If a call returns false,
// parsing stops. The handler must limit the depth, because the parser is recursive.
template <class Handler>
class JsonReader {
 public:
  JsonReader(std::string_view text, Handler& handler) : text_(text), handler_(handler) {}

  // Returns false if the text is not JSON, a number is too large, or the handler returned false. `position`
  // is where parsing stopped and `expected` what was missing there.
  bool read() {
    at_ = first_invalid_utf8(text_);
    if (at_ != text_.size()) return stop(JsonExpected::Utf8);
    at_ = 0;
    if (!value()) return false;
    skip_space();
    return at_ == text_.size() || stop(JsonExpected::EndOfText);
  }
  std::size_t position() const { return at_; }
  JsonExpected expected() const { return expected_; }

 private:
  bool stop(JsonExpected expected) {
    expected_ = expected;
    return false;
  }
  bool stop(JsonExpected expected, std::size_t at) {
    at_ = at;
    return stop(expected);
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_space() {
    while (peek() == ' ' || peek() == '\n' || peek() == '\r' || peek() == '\t') ++at_;
  }

  // Skips the next character if it is `c`, and returns whether it was.
  bool pass(char c) {
    skip_space();
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  bool value() {
    skip_space();
    switch (peek()) {
      case '{': return object();
      case '[': return array();
      case '"': return string() && handler_.string(word_);
      case 't': return literal("true") && handler_.boolean(true);
      case 'f': return literal("false") && handler_.boolean(false);
      case 'n': return literal("null") && handler_.null();
      default: return number();
    }
  }

  bool literal(std::string_view name) {
    if (!text_.substr(at_).starts_with(name)) return stop(JsonExpected::Value);
    at_ += name.size();
    return true;
  }

  bool object() {
    constexpr std::size_t kUnknown = static_cast<std::size_t>(-1);
    ++at_;
    if (!handler_.start_object(kUnknown)) return false;
    if (pass('}')) return handler_.end_object();
    do {
      skip_space();
      if (peek() != '"') return stop(JsonExpected::Name);
      if (!string() || !handler_.key(word_)) return false;
      if (!pass(':')) return stop(JsonExpected::Colon);
      if (!value()) return false;
    } while (pass(','));
    return pass('}') ? handler_.end_object() : stop(JsonExpected::EndOfObject);
  }

  bool array() {
    constexpr std::size_t kUnknown = static_cast<std::size_t>(-1);
    ++at_;
    if (!handler_.start_array(kUnknown)) return false;
    if (pass(']')) return handler_.end_array();
    do
      if (!value()) return false;
    while (pass(','));
    return pass(']') ? handler_.end_array() : stop(JsonExpected::EndOfList);
  }

  static bool is_plain(char c) { return c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20; }

  // Parses a string into word_.
  bool string() {
    word_.clear();
    ++at_;
    word_.reserve(std::min(text_.find('"', at_), text_.size()) - at_);  // exact if there are no escapes
    for (;;) {
      const std::size_t begin = at_;
      while (at_ < text_.size() && is_plain(text_[at_])) ++at_;
      word_ += text_.substr(begin, at_ - begin);
      if (peek() == '"') {
        ++at_;
        return true;
      }
      if (peek() != '\\') return stop(JsonExpected::EndOfString);
      const std::size_t backslash = at_++;
      if (!escape()) return stop(JsonExpected::Escape, backslash);
    }
  }

  bool escape() {
    constexpr std::string_view kNames = "\"\\/bfnrt", kCharacters = "\"\\/\b\f\n\r\t";
    const char name = peek();
    if (name == 'u') return ++at_, code();
    const std::size_t found = name == '\0' ? kNames.npos : kNames.find(name);
    if (found == kNames.npos) return false;
    word_ += kCharacters[found];
    ++at_;
    return true;
  }

  // Parses the code of \u. One half of a surrogate pair is not a character.
  bool code() {
    std::uint32_t first = 0, second = 0;
    if (!hex(first) || (first >= 0xDC00 && first <= 0xDFFF)) return false;
    if (first >= 0xD800 && first <= 0xDBFF) {
      if (!literal("\\u") || !hex(second) || second < 0xDC00 || second > 0xDFFF) return false;
      first = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    }
    append_utf8(word_, first);
    return true;
  }

  bool hex(std::uint32_t& code) {
    const std::string_view digits = text_.substr(std::min(at_, text_.size()), 4);
    const char* const end = digits.data() + digits.size();
    if (digits.size() < 4 || std::from_chars(digits.data(), end, code, 16).ptr != end) return false;
    at_ += 4;
    return true;
  }

  bool digits() {
    const std::size_t begin = at_;
    while (is_ascii_digit(peek())) ++at_;
    return at_ > begin;
  }

  bool number() {
    const std::size_t begin = at_;
    const bool negative = peek() == '-';
    if (negative) ++at_;
    const std::size_t first = at_;
    if (!digits() || (text_[first] == '0' && at_ > first + 1)) return stop(JsonExpected::Value, begin);
    bool whole = true;
    if (peek() == '.') {
      ++at_;
      whole = false;
      if (!digits()) return stop(JsonExpected::Value, begin);
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      whole = false;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!digits()) return stop(JsonExpected::Value, begin);
    }
    return report_number(begin, whole, negative);
  }

  // Reports a number. Integers beyond 64 bits become floats.
  bool report_number(std::size_t begin, bool whole, bool negative) {
    const std::string_view digits = text_.substr(begin, at_ - begin);
    const char* const end = digits.data() + digits.size();
    if (std::int64_t number = 0;
        whole && negative && std::from_chars(digits.data(), end, number).ec == std::errc())
      return handler_.number_integer(number);
    if (std::uint64_t number = 0;
        whole && !negative && std::from_chars(digits.data(), end, number).ec == std::errc())
      return handler_.number_unsigned(number);
    double number = 0;
    word_ = digits;
    if (std::from_chars(digits.data(), end, number).ec != std::errc())
      number = std::strtod(word_.c_str(), nullptr);  // too small becomes 0, as in Python
    if (!std::isfinite(number)) return stop(JsonExpected::SmallNumber, begin);
    return handler_.number_float(number, word_);
  }

  std::string_view text_;
  Handler& handler_;
  std::size_t at_ = 0;
  JsonExpected expected_ = JsonExpected::Accepted;
  std::string word_;
};

}  // namespace dpo
