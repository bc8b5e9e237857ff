#include "text/normalizer.h"

#include <algorithm>

#include <fmt/format.h>
#include <utf8proc.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/char_class.h"

namespace dpo::text {
namespace {

class Prepend : public NormalizerStep {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  bool may_change(std::string_view text) const override { return !text.empty(); }
  void apply(Normalized& normalized) const override { normalized.text.insert(0, prefix_); }

 private:
  std::string prefix_;
};

class Replace : public NormalizerStep {
 public:
  Replace(TextPattern pattern, std::string replacement)
      : pattern_(std::move(pattern)), replacement_(std::move(replacement)) {}

  bool may_change(std::string_view text) const override {
    return pattern_.regex || text.find(pattern_.literal) != text.npos;
  }

  void apply(Normalized& normalized) const override {
    // A replaced character keeps its place; more than one, or none in their stead, lose the start.
    pattern_.for_each_match(normalized.text, [&](std::size_t start, std::size_t end) {
      if (start == 0 && end > 0 && (replacement_.empty() || code_point_at(normalized.text, 0).length < end))
        normalized.keeps_start = false;
    });
    normalized.text = replace_matches(pattern_, replacement_, normalized.text, normalized.given);
  }

 private:
  TextPattern pattern_;
  std::string replacement_;
};

class Strip : public NormalizerStep {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}

  bool may_change(std::string_view text) const override { return !text.empty(); }

  void apply(Normalized& normalized) const override {
    std::string& text = normalized.text;
    const auto is_space = [&](std::size_t at) {
      return (char_classes()[code_point_at(text, at).code] & kSpace) != 0;
    };
    std::size_t start = 0;
    while (left_ && start < text.size() && is_space(start)) start += code_point_at(text, start).length;
    std::size_t end = text.size();
    while (right_ && end > start && is_space(previous_start(text, end))) end = previous_start(text, end);
    normalized.keeps_start = normalized.keeps_start && start == 0;
    text = text.substr(start, end - start);
  }

 private:
  bool left_;
  bool right_;
};

struct NewerLower {
  char32_t first;
  char32_t last;
  char32_t lower_of_first;
};
// Lower case since Unicode 14, which utf8proc may not know yet.
constexpr NewerLower kNewerLower[] = {
    {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x264},  {0xA7CC, 0xA7CC, 0xA7CD},
    {0xA7CE, 0xA7CE, 0xA7CF},    {0xA7D2, 0xA7D2, 0xA7D3}, {0xA7D4, 0xA7D4, 0xA7D5},
    {0xA7DA, 0xA7DA, 0xA7DB},    {0xA7DC, 0xA7DC, 0x19B},  {0x10D50, 0x10D65, 0x10D70},
    {0x16EA0, 0x16EB8, 0x16EBB},
};

void append_lower(std::string& out, char32_t code) {
  if (code == 0x130) {  // the one character whose lower case is two, whatever follows
    out += "i\u0307";
    return;
  }
  for (const NewerLower& newer : kNewerLower)
    if (code >= newer.first && code <= newer.last)
      return append_utf8(out, newer.lower_of_first + (code - newer.first));
  append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
}

class Lowercase : public NormalizerStep {
 public:
  bool may_change(std::string_view) const override { return true; }

  void apply(Normalized& normalized) const override {
    std::string out;
    out.reserve(normalized.text.size());
    for (std::size_t at = 0; at < normalized.text.size();) {
      const CodePoint point = code_point_at(normalized.text, at);
      at += point.length;
      append_lower(out, point.code);
    }
    normalized.text = std::move(out);
  }
};

}  // namespace

void TextPattern::for_each_match(std::string_view text,
                                 const std::function<void(std::size_t, std::size_t)>& found) const {
  if (regex) return regex->for_each_match(text, found);
  if (literal.empty()) return;
  for (std::size_t at = text.find(literal); at != text.npos; at = text.find(literal, at + literal.size()))
    found(at, at + literal.size());
}

void check_growth(std::size_t given, std::size_t grown) {
  const std::size_t most = 32 * given + 4096;
  if (grown > most)
    throw UserError(
        fmt::format("the tokenizer makes more than {} bytes of a text of {}: its Replace and Prepend steps "
                    "multiply it, as those of no tokenizer in use do. Is its tokenizer.json damaged?",
                    most, given));
}

std::string replace_matches(const TextPattern& pattern, std::string_view replacement, std::string_view text,
                            std::size_t given) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  std::size_t copied = 0;
  pattern.for_each_match(text, [&](std::size_t start, std::size_t end) {
    check_growth(given, out.size() + (start - copied) + replacement.size());
    out.append(text, copied, start - copied);
    out += replacement;
    copied = end;
  });
  out.append(text, copied);
  return out;
}

std::unique_ptr<const NormalizerStep> prepend_step(std::string prefix) {
  return std::make_unique<Prepend>(std::move(prefix));
}

std::unique_ptr<const NormalizerStep> replace_step(TextPattern pattern, std::string replacement) {
  return std::make_unique<Replace>(std::move(pattern), std::move(replacement));
}

std::unique_ptr<const NormalizerStep> strip_step(bool left, bool right) {
  return std::make_unique<Strip>(left, right);
}

std::unique_ptr<const NormalizerStep> lowercase_step() { return std::make_unique<Lowercase>(); }

std::string_view Normalizer::apply(std::string_view text, Normalized& storage) const {
  storage.keeps_start = true;
  storage.given = text.size();
  for (const auto& step : steps_) {
    if (!step->may_change(text)) continue;
    if (text.data() != storage.text.data()) storage.text = text;
    step->apply(storage);
    text = storage.text;
    check_growth(storage.given, text.size());
  }
  return text;
}

}  // namespace dpo::text
