#include "text/normalizer.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include <fmt/format.h>
#include <utf8proc.h>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode.h"

namespace dpo::text {
namespace {

class PrependNormalizer : public NormalizerStep {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}
  bool may_change(std::string_view text) const override { return !text.empty(); }
  void apply(Normalized& normalized) const override { normalized.text.insert(0, prefix_); }

 private:
  std::string prefix_;
};

class ReplaceNormalizer : public NormalizerStep {
 public:
  ReplaceNormalizer(TextPattern pattern, std::string replacement)
      : pattern_(std::move(pattern)), replacement_(std::move(replacement)) {}

  bool may_change(std::string_view text) const override {
    return pattern_.regex || text.find(pattern_.literal) != text.npos;
  }

  void apply(Normalized& normalized) const override {
    // The start is kept if one character is replaced by another. It is lost if several are replaced or one is
    // removed.
    pattern_.for_each_match(normalized.text, [&](std::size_t start, std::size_t end) {
      if (start == 0 && end > 0 && (replacement_.empty() || code_point_at(normalized.text, 0).length < end))
        normalized.keeps_start = false;
    });
    normalized.text = replace_matches(pattern_, replacement_, normalized.text, normalized.input_size);
  }

 private:
  TextPattern pattern_;
  std::string replacement_;
};

class StripNormalizer : public NormalizerStep {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}

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
// Lower case of characters that are newer than Unicode 14, which utf8proc may not know yet.
constexpr NewerLower kNewerLower[] = {
    {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x264},  {0xA7CC, 0xA7CC, 0xA7CD},
    {0xA7CE, 0xA7CE, 0xA7CF},    {0xA7D2, 0xA7D2, 0xA7D3}, {0xA7D4, 0xA7D4, 0xA7D5},
    {0xA7DA, 0xA7DA, 0xA7DB},    {0xA7DC, 0xA7DC, 0x19B},  {0x10D50, 0x10D65, 0x10D70},
    {0x16EA0, 0x16EB8, 0x16EBB},
};

void append_lower(std::string& out, char32_t code) {
  if (code == 0x130) {  // the only character whose lower case is two characters
    out += "i\u0307";
    return;
  }
  for (const NewerLower& newer : kNewerLower)
    if (code >= newer.first && code <= newer.last)
      return append_utf8(out, newer.lower_of_first + (code - newer.first));
  append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
}

class LowercaseNormalizer : public NormalizerStep {
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

// Characters newer than the normal forms of the `tokenizers` library, which are those of Unicode 9. They have
// a decomposition or a combining class, or are part of a composition, but stay as they are. Nothing may move
// or combine across them.
constexpr Range kNewerThanForms[] = {
    {0x7fd, 0x7fd},     {0x897, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xc3c, 0xc3c},
    {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x1715, 0x1715},   {0x1abf, 0x1af0},   {0x1df6, 0x1dfa},
    {0x209d, 0x209f},   {0x32ff, 0x32ff},   {0xa7f1, 0xa7f4},   {0xa82c, 0xa82c},   {0xab69, 0xab69},
    {0x105c0, 0x105ff}, {0x10780, 0x107bf}, {0x10d24, 0x10d27}, {0x10d69, 0x10d6d}, {0x10eab, 0x10eac},
    {0x10ecb, 0x10ecf}, {0x10ef0, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070},
    {0x1133b, 0x1133b}, {0x11380, 0x113ff}, {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11900, 0x1195f},
    {0x119e0, 0x119e0}, {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d42},
    {0x11d44, 0x11d45}, {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x16100, 0x1613f}, {0x16d40, 0x16d7f},
    {0x16ff0, 0x16ff1}, {0x1ccd6, 0x1ccf9}, {0x1df95, 0x1df95}, {0x1e030, 0x1e06d}, {0x1e08f, 0x1e08f},
    {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}, {0x1e5ee, 0x1e5ef},
    {0x1e6e3, 0x1e6e3}, {0x1e6e6, 0x1e6e6}, {0x1e6ee, 0x1e6ef}, {0x1e6f5, 0x1e6f5}, {0x1f16c, 0x1f16c},
    {0x1fbf0, 0x1fbf9},
};

bool is_newer(char32_t code) {
  const auto range = std::lower_bound(std::begin(kNewerThanForms), std::end(kNewerThanForms), code,
                                      [](const Range& r, char32_t c) { return r.last < c; });
  return range != std::end(kNewerThanForms) && range->first <= code;
}

struct FreeMemory {
  void operator()(utf8proc_uint8_t* memory) const { std::free(memory); }
};

class UnicodeNormalizer : public NormalizerStep {
 public:
  explicit UnicodeNormalizer(NormalForm form)
      : options_(options_of(form)), first_changing_byte_(first_changing_byte(form)) {}

  bool may_change(std::string_view text) const override {
    return std::any_of(text.begin(), text.end(), [&](char c) { return may_change(c); });
  }

  // Examines only runs of characters that may change, each with the character before it, which a mark may
  // join. A character that cannot change never joins the one before it, so the parts are independent.
  void apply(Normalized& normalized) const override {
    const std::string_view text = normalized.text;
    std::string out;
    out.reserve(text.size());
    for (std::size_t done = 0; done < text.size();) {
      std::size_t at = done;
      while (at < text.size() && !may_change(text[at])) ++at;
      const std::size_t begin = at > done && at < text.size() ? previous_start(text, at) : at;
      out.append(text, done, begin - done);
      while (at < text.size() && may_change(text[at])) at += code_point_at(text, at).length;
      append_run(out, text.substr(begin, at - begin));
      done = at;
    }
    normalized.text = std::move(out);
  }

 private:
  bool may_change(char lead) const { return static_cast<unsigned char>(lead) >= first_changing_byte_; }

  // Characters that are newer than the library's tables are copied unchanged.
  void append_run(std::string& out, std::string_view run) const {
    std::size_t done = 0;
    for (std::size_t at = 0; at < run.size();) {
      const CodePoint point = code_point_at(run, at);
      if (is_newer(point.code)) {
        append_form(out, run.substr(done, at - done));
        out.append(run, at, point.length);
        done = at + point.length;
      }
      at += point.length;
    }
    append_form(out, run.substr(done));
  }

  static utf8proc_option_t options_of(NormalForm form) {
    const bool composes = form == NormalForm::Nfc || form == NormalForm::Nfkc;
    const bool compatible = form == NormalForm::Nfkc || form == NormalForm::Nfkd;
    return static_cast<utf8proc_option_t>(UTF8PROC_STABLE |
                                          (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                          (compatible ? UTF8PROC_COMPAT : 0));
  }

  // Returns the lead byte of the first character that the form can change: U+0300, U+00C0, U+00A0.
  static unsigned char first_changing_byte(NormalForm form) {
    if (form == NormalForm::Nfc) return 0xCC;
    return form == NormalForm::Nfd ? 0xC3 : 0xC2;
  }

  void append_form(std::string& out, std::string_view text) const {
    if (text.empty()) return;
    utf8proc_uint8_t* mapped = nullptr;
    const utf8proc_ssize_t length =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                     static_cast<utf8proc_ssize_t>(text.size()), &mapped, options_);
    const std::unique_ptr<utf8proc_uint8_t, FreeMemory> owner(mapped);
    if (length < 0) throw std::bad_alloc();  // the only possible error for valid UTF-8
    out.append(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(length));
  }

  utf8proc_option_t options_;
  unsigned char first_changing_byte_;
};

}  // namespace

void TextPattern::for_each_match(std::string_view text,
                                 const std::function<void(std::size_t, std::size_t)>& found) const {
  if (regex) return regex->for_each_match(text, found);
  if (literal.empty()) return;
  for (std::size_t at = text.find(literal); at != text.npos; at = text.find(literal, at + literal.size()))
    found(at, at + literal.size());
}

void check_growth(std::size_t before, std::size_t after) {
  const std::size_t most = 32 * before + 4096;
  if (after > most)
    throw UserError(
        fmt::format("the tokenizer expands a text of {} bytes to more than {}: its Replace and Prepend steps "
                    "multiply it; is its tokenizer.json damaged?",
                    before, most));
}

std::string replace_matches(const TextPattern& pattern, std::string_view replacement, std::string_view text,
                            std::size_t input_size) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  std::size_t copied = 0;
  pattern.for_each_match(text, [&](std::size_t start, std::size_t end) {
    check_growth(input_size, out.size() + (start - copied) + replacement.size());
    out.append(text, copied, start - copied);
    out += replacement;
    copied = end;
  });
  out.append(text, copied);
  return out;
}

std::unique_ptr<const NormalizerStep> normal_form_step(NormalForm form) {
  return std::make_unique<UnicodeNormalizer>(form);
}

std::unique_ptr<const NormalizerStep> prepend_step(std::string prefix) {
  return std::make_unique<PrependNormalizer>(std::move(prefix));
}

std::unique_ptr<const NormalizerStep> replace_step(TextPattern pattern, std::string replacement) {
  return std::make_unique<ReplaceNormalizer>(std::move(pattern), std::move(replacement));
}

std::unique_ptr<const NormalizerStep> strip_step(bool left, bool right) {
  return std::make_unique<StripNormalizer>(left, right);
}

std::unique_ptr<const NormalizerStep> lowercase_step() { return std::make_unique<LowercaseNormalizer>(); }

std::string_view Normalizer::apply(std::string_view text, Normalized& storage) const {
  storage.keeps_start = true;
  storage.input_size = text.size();
  for (const auto& step : steps_) {
    if (!step->may_change(text)) continue;
    if (text.data() != storage.text.data()) storage.text = text;
    step->apply(storage);
    text = storage.text;
    check_growth(storage.input_size, text.size());
  }
  return text;
}

}  // namespace dpo::text
