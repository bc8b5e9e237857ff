#include "text/word_matcher.h"

#include "base/utf8.h"
#include "text/unicode.h"

namespace dpo::text {
namespace {

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kCl100k =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::uint8_t kClassMask = kLetter | kNumber | kSpace;

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text), classes_(char_classes()) {}

  bool at_end(std::size_t at) const { return at >= text_.size(); }
  char byte(std::size_t at) const { return at < text_.size() ? text_[at] : '\0'; }
  bool is_newline(std::size_t at) const { return byte(at) == '\r' || byte(at) == '\n'; }

  // Returns kLetter, kNumber, kSpace, or 0 for other characters.
  std::uint8_t class_at(std::size_t at) const { return classes_[code_point_at(text_, at).code] & kClassMask; }
  std::size_t after(std::size_t at) const { return at + code_point_at(text_, at).length; }

  // Returns the end of the run of characters of one class, of at most `limit` characters.
  std::size_t run_end(std::size_t at, std::uint8_t wanted, std::size_t limit = std::string_view::npos) const {
    for (; limit > 0 && at < text_.size(); --limit) {
      const CodePoint point = code_point_at(text_, at);
      if ((classes_[point.code] & kClassMask) != wanted) break;
      at += point.length;
    }
    return at;
  }

  // Matches \s+(?!\S)|\s+ at the start of whitespace: a run leaves its last character to the next word.
  std::size_t space_end(std::size_t at, std::size_t end) const {
    if (end == text_.size()) return end;
    const std::size_t last = previous_start(text_, end);
    return last > at ? last : end;
  }

  // Returns the end of a contraction ('s, 'll ...), or `at`.
  std::size_t contraction_end(std::size_t at, bool any_case) const {
    if (byte(at) != '\'') return at;
    const auto letter = [&](std::size_t i) {
      const char c = byte(i);
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    };
    const char first = letter(at + 1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    const char second = letter(at + 2);
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l'))
      return at + 3;
    if (any_case && text_.substr(at + 1, 2) == "\u017F") return at + 3;  // a long s is an s in any case
    return at;
  }

 private:
  std::string_view text_;
  const std::uint8_t* classes_;
};

std::size_t gpt2_end(const Reader& reader, std::size_t at) {
  const std::size_t contraction = reader.contraction_end(at, false);
  if (contraction != at) return contraction;
  const std::size_t word = reader.byte(at) == ' ' && !reader.at_end(at + 1) ? at + 1 : at;
  const std::uint8_t kind = reader.class_at(word);
  if (kind != kSpace) return reader.run_end(word, kind);
  return reader.space_end(at, reader.run_end(at, kSpace));
}

std::size_t cl100k_end(const Reader& reader, std::size_t at, std::size_t digits) {
  const std::size_t contraction = reader.contraction_end(at, true);
  if (contraction != at) return contraction;
  const std::uint8_t kind = reader.class_at(at);
  if (kind == kLetter) return reader.run_end(at, kLetter);
  if (kind == kNumber) return reader.run_end(at, kNumber, digits);
  const std::size_t next = reader.after(at);
  if (!reader.is_newline(at) && !reader.at_end(next) && reader.class_at(next) == kLetter)
    return reader.run_end(next, kLetter);
  const std::size_t other = reader.byte(at) == ' ' ? next : at;
  if (!reader.at_end(other) && reader.class_at(other) == 0) {
    std::size_t end = reader.run_end(other, 0);
    while (reader.is_newline(end)) ++end;
    return end;
  }
  const std::size_t end = reader.run_end(at, kSpace);
  std::size_t newline = end;  // \s*[\r\n]+ extends to the last newline of the run
  while (newline > at && !reader.is_newline(newline - 1)) --newline;
  return newline > at ? newline : reader.space_end(at, end);
}

}  // namespace

std::string_view pattern_text(WordPattern pattern) {
  switch (pattern) {
    case WordPattern::Gpt2: return kGpt2;
    case WordPattern::Cl100k: return kCl100k;
    case WordPattern::Qwen2: break;
  }
  return kQwen2;
}

std::optional<WordPattern> known_pattern(std::string_view text) {
  for (const WordPattern pattern : {WordPattern::Gpt2, WordPattern::Cl100k, WordPattern::Qwen2})
    if (pattern_text(pattern) == text) return pattern;
  return std::nullopt;
}

std::size_t word_end(WordPattern pattern, std::string_view text, std::size_t at) {
  const Reader reader(text);
  switch (pattern) {
    case WordPattern::Gpt2: return gpt2_end(reader, at);
    case WordPattern::Cl100k: return cl100k_end(reader, at, 3);
    case WordPattern::Qwen2: break;
  }
  return cl100k_end(reader, at, 1);
}

}  // namespace dpo::text
