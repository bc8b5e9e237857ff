#include <algorithm>
#include <cstdlib>
#include <new>

#include <utf8proc.h>

#include "base/utf8.h"
#include "text/normalizer.h"
#include "text/unicode_data.h"

namespace dpo::text {
namespace {

// The normal forms of the `tokenizers` library are those of Unicode 9. What came later and has a
// decomposition or a combining class, or is part of a composition, must be left alone, and nothing may move
// or join across it.
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

class NormalFormStep : public NormalizerStep {
 public:
  explicit NormalFormStep(NormalForm form)
      : options_(options_of(form)), first_changing_byte_(first_changing_byte(form)) {}

  bool may_change(std::string_view text) const override {
    return std::any_of(text.begin(), text.end(),
                       [&](char c) { return static_cast<unsigned char>(c) >= first_changing_byte_; });
  }

  void apply(Normalized& normalized) const override {
    const std::string_view text = normalized.text;
    std::string out;
    out.reserve(text.size());
    std::size_t done = 0;
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint point = code_point_at(text, at);
      if (is_newer(point.code)) {
        append_form(out, text.substr(done, at - done));
        out.append(text, at, point.length);
        done = at + point.length;
      }
      at += point.length;
    }
    append_form(out, text.substr(done));
    normalized.text = std::move(out);
  }

 private:
  static utf8proc_option_t options_of(NormalForm form) {
    const bool composes = form == NormalForm::Nfc || form == NormalForm::Nfkc;
    const bool compatible = form == NormalForm::Nfkc || form == NormalForm::Nfkd;
    return static_cast<utf8proc_option_t>(UTF8PROC_STABLE |
                                          (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                          (compatible ? UTF8PROC_COMPAT : 0));
  }

  // The lead byte of the first character that the form can change: U+0300, U+00C0, U+00A0.
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
    if (length < 0) throw std::bad_alloc();  // of valid UTF-8 nothing else can fail
    out.append(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(length));
  }

  utf8proc_option_t options_;
  unsigned char first_changing_byte_;
};

}  // namespace

std::unique_ptr<const NormalizerStep> normal_form_step(NormalForm form) {
  return std::make_unique<NormalFormStep>(form);
}

}  // namespace dpo::text
