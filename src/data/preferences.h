// The preferences that a data set has for a prompt, and the examples that a loss makes from them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/losses.h"
#include "config/run_config.h"
#include "data/texts.h"
#include "data/token_file.h"

namespace dpo::data {

using config::ExampleKind;

// The preferences of one prompt, which may be text or tokens.
struct Preferences {
  std::span<const Pair> pairs;
  std::size_t rankings = 0;
  std::span<const Label> labels;
  std::uint32_t target = 0;
  std::size_t responses = 0;
};
Preferences preferences_of(const PromptText& prompt);
Preferences preferences_of(const TokenFile& file, std::uint32_t prompt);

// Returns the number of examples of a prompt. For an unpaired loss these are the prompt's pairs, then its
// labels. SFT has no example if the response is labelled as bad.
std::uint32_t count_examples(const Preferences& prompt, ExampleKind kind);

// Returns the indices of an example's responses, the preferred one first.
std::vector<std::uint32_t> responses_of(const PromptText& prompt, ExampleKind kind, std::uint32_t number);

// Checks that a source has the data that a loss needs.
class DataFormatCheck {
 public:
  explicit DataFormatCheck(const config::LossConfig& loss)
      : loss_(loss.name), kind_(facts_of(loss.name).examples) {}

  void add(const Preferences& prompt);

  // Throws a UserError if a source has no example for the loss because its rows are made for another kind of
  // loss.
  void finish(const std::string& source) const;

 private:
  config::Loss loss_;
  ExampleKind kind_;
  bool has_example_ = false, has_labels_ = false, has_lists_ = false;
};

// Runs DataFormatCheck on the texts of a source.
void check_form(const std::string& source, const std::vector<PromptText>& prompts,
                const config::LossConfig& loss);

}  // namespace dpo::data
