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
  float weight = 1;  // in the loss
  float margin = 0;  // by how much the better should lead, in rewards
};

// Two or more responses of a prompt, by number, the best first.
struct Ranking {
  std::vector<std::uint32_t> responses;
  float weight = 1;
};

// A prompt with everything that a data set says about it.
struct PromptText {
  std::string prompt;
  std::vector<std::string> responses;
  std::vector<Pair> pairs;
  std::vector<Ranking> rankings;  // the same preferences, each row's as one list
  std::uint32_t sft_target = 0;   // the response to imitate
  std::vector<double> scores;     // of the responses, where the data set has them

  // A pair, which is a ranking of two as well.
  void add_pair(const Pair& pair);
};

// The numbers of responses from the best to the worst, by their scores. Of those with equal scores the first
// stands for all: an order that the data do not give would be made up, while in the model of Plackett and
// Luce the order of some of the responses is as likely whether or not the others are looked at.
std::vector<std::uint32_t> ranked_by(const std::vector<double>& scores);

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
