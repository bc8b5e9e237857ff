// What a prompt has to learn from, and what a loss makes of it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "data/texts.h"
#include "data/token_file.h"

namespace dpo::data {

// What an example is: a response to imitate, two that are compared, a whole ranking; or, for unpaired losses,
// whatever there is, two responses or one with a label.
enum class ExampleKind { Target, Pair, Ranking, Unpaired };
ExampleKind example_kind(const config::LossConfig& loss);

// Of a prompt, as text or as tokens.
struct Preferences {
  std::span<const Pair> pairs;
  std::size_t rankings = 0;
  std::span<const Label> labels;
  std::uint32_t target = 0;
  std::size_t responses = 0;
};
Preferences preferences_of(const PromptText& prompt);
Preferences preferences_of(const TokenFile& file, std::uint32_t prompt);

// The number of examples of a prompt. Those of an unpaired loss are its pairs, then its labels. SFT has none
// where the response is labelled as bad.
std::uint32_t count_examples(const Preferences& prompt, ExampleKind kind);

// The responses of an example (indices), the preferred first.
std::vector<std::uint32_t> responses_of(const PromptText& prompt, ExampleKind kind, std::uint32_t number);

// Checks that a source has what a loss needs.
class FormCheck {
 public:
  explicit FormCheck(const config::LossConfig& loss) : loss_(loss.name), kind_(example_kind(loss)) {}

  void add(const Preferences& prompt);

  // A source without an example for the loss, whose rows have the form of another, is a UserError.
  void finish(const std::string& source) const;

 private:
  config::Loss loss_;
  ExampleKind kind_;
  bool has_example_ = false, has_labels_ = false, has_lists_ = false;
};

// The same for the texts of a source.
void check_form(const std::string& source, const std::vector<PromptText>& prompts,
                const config::LossConfig& loss);

}  // namespace dpo::data
