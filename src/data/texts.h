#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace dpo::data {

// Two responses of a prompt, by number: the first is preferred.
struct Pair {
  std::uint32_t better = 0;
  std::uint32_t worse = 0;
};

// A prompt with everything that a data set says about it.
struct PromptText {
  std::string prompt;
  std::vector<std::string> responses;
  std::vector<Pair> pairs;
  std::uint32_t sft_target = 0;  // the response to imitate
  std::vector<double> scores;    // of the responses, where the data set has them
};

// The prompts of a data set in order of their first appearance, equal ones together.
class PromptTexts {
 public:
  // The entry of this prompt, made if it is new.
  PromptText& at(std::string prompt);

  // Adds what another row says about a prompt.
  void append(PromptText&& more);

  std::vector<PromptText> take() && { return std::move(prompts_); }

 private:
  std::vector<PromptText> prompts_;
  std::unordered_multimap<std::size_t, std::size_t> by_hash_;  // of the prompt: its place
};

}  // namespace dpo::data
