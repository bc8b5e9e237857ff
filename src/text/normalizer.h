#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/regex.h"

namespace dpo::text {

// A text between two normalizer steps.
struct Normalized {
  std::string text;
  // True while the first character of the input is still there. Later steps use it to decide what is at the
  // start of the text.
  bool keeps_start = true;
  std::size_t input_size = 0;
};

// One step of normalization. It is immutable.
class NormalizerStep {
 public:
  virtual ~NormalizerStep() = default;
  // Returns false if `apply` would certainly change nothing. This is a quick check.
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

// Throws a UserError if a text grows far more than with any real tokenizer. The largest real growth is that
// of a normal form, 11 times. A file with forty steps that each double the text would fill any memory.
void check_growth(std::size_t before, std::size_t after);

// Returns `text` with every match replaced. `input_size` is for check_growth.
std::string replace_matches(const TextPattern& pattern, std::string_view replacement, std::string_view text,
                            std::size_t input_size);

enum class NormalForm { Nfc, Nfd, Nfkc, Nfkd };

std::unique_ptr<const NormalizerStep> normal_form_step(NormalForm form);
std::unique_ptr<const NormalizerStep> prepend_step(std::string prefix);
std::unique_ptr<const NormalizerStep> replace_step(TextPattern pattern, std::string replacement);
std::unique_ptr<const NormalizerStep> strip_step(bool left, bool right);
std::unique_ptr<const NormalizerStep> lowercase_step();

class Normalizer {
 public:
  explicit Normalizer(NormalizerSteps steps = {}) : steps_(std::move(steps)) {}

  // Returns the normalized text, which is `text` itself or `storage.text`. Calls check_growth.
  std::string_view apply(std::string_view text, Normalized& storage) const;

 private:
  NormalizerSteps steps_;
};

}  // namespace dpo::text
