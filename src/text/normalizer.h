#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex.h"

namespace dpo::text {

// A text on its way through the normalizers.
struct Normalized {
  std::string text;
  // Whether its first character still comes from the first of the piece. "Only at the start of the text"
  // means that.
  bool keeps_start = true;
  std::size_t given = 0;  // the bytes of the piece
};

// One change of a text. Immutable.
class NormalizerStep {
 public:
  virtual ~NormalizerStep() = default;
  // A quick look: false if `apply` would surely change nothing.
  virtual bool may_change(std::string_view text) const = 0;
  virtual void apply(Normalized& normalized) const = 0;
};
using NormalizerSteps = std::vector<std::unique_ptr<const NormalizerStep>>;

// Either a literal text or a regular expression.
struct TextPattern {
  std::string literal;
  std::optional<Regex> regex;

  void for_each_match(std::string_view text,
                      const std::function<void(std::size_t, std::size_t)>& found) const;
};

// A UserError where changes make much more of a text than any tokenizer does: the largest growth in use is
// that of a normal form, 11 times. Steps that double a text, forty in a row, would fill any memory.
void check_growth(std::size_t given, std::size_t grown);

// `text` with every match replaced. `given`: the size of what it was made of, for check_growth.
std::string replace_matches(const TextPattern& pattern, std::string_view replacement, std::string_view text,
                            std::size_t given);

enum class NormalForm { Nfc, Nfd, Nfkc, Nfkd };

std::unique_ptr<const NormalizerStep> normal_form_step(NormalForm form);
std::unique_ptr<const NormalizerStep> prepend_step(std::string prefix);
std::unique_ptr<const NormalizerStep> replace_step(TextPattern pattern, std::string replacement);
std::unique_ptr<const NormalizerStep> strip_step(bool left, bool right);
std::unique_ptr<const NormalizerStep> lowercase_step();

class Normalizer {
 public:
  explicit Normalizer(NormalizerSteps steps = {}) : steps_(std::move(steps)) {}

  // The normalized text: `text` itself, or `storage.text`. See check_growth.
  std::string_view apply(std::string_view text, Normalized& storage) const;

 private:
  NormalizerSteps steps_;
};

}  // namespace dpo::text
