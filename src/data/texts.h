#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dpo::data {

// Two responses of a prompt (indices).
struct Pair {
  std::uint32_t chosen = 0;
  std::uint32_t rejected = 0;
  float weight = 1;  // in the loss
  float margin = 0;  // by which the chosen should lead, in rewards
};

// Two or more responses of a prompt (indices), the best first.
struct Ranking {
  std::vector<std::uint32_t> responses;
  float weight = 1;
};

// A response of a prompt (its index) that is good or bad by itself.
struct Label {
  std::uint32_t response = 0;
  bool desirable = true;
  float weight = 1;  // in the loss
};

// Where a row is: the number of its file in the source, and its line.
struct RowOrigin {
  std::uint32_t file = 0;
  std::int64_t line = 0;

  bool operator==(const RowOrigin&) const = default;
};

// A prompt with everything that a data set has for it.
struct PromptText {
  std::string prompt;
  std::vector<std::string> responses;
  bool chat = false;               // prompt and responses are messages as JSON, not plain text
  std::vector<RowOrigin> origins;  // of each response of a chat
  std::vector<Pair> pairs;
  std::vector<Ranking> rankings;  // the same preferences as lists, one per row
  std::vector<Label> labels;
  bool own_entry = false;        // made by PromptTexts::add
  std::uint64_t split_hash = 0;  // of own files: decides whether it is in the test split
  std::uint32_t sft_target = 0;  // the response to imitate
  std::vector<double> scores;    // of the responses, if the data set has them

  // Adds a pair, which is also a ranking of two.
  void add_pair(const Pair& pair);
};

// The same for a text in every run, whatever else is in the files.
std::uint64_t split_hash_of(std::string_view text);
bool is_in_test_split(std::uint64_t split_hash, double test_share);

// The smallest share with which a text of this hash is in the test split.
double share_that_takes(std::uint64_t split_hash);

// Without the responses of a row and what compares them.
PromptText without_row(const PromptText& prompt, RowOrigin row);

// Indices of responses from best to worst, by their scores. Of equal scores only the first is used: the data
// give no order between them, and under the Plackett-Luce model the order of the rest is equally likely
// without the others.
std::vector<std::uint32_t> ranked_by(const std::vector<double>& scores);

// The prompts of a data set in order of first appearance; those of at() are merged if they are equal.
class PromptTexts {
 public:
  // The entry of this prompt, created if it is new. Entries of add() are never returned.
  PromptText& at(std::string prompt);

  // A new entry, even if there is one with this prompt: a row that is an example of its own.
  PromptText& add(std::string prompt);

  // Adds another row: to the prompt if that is known, unless the row is an example of its own.
  void append(PromptText&& more);

  std::vector<PromptText> take() && { return std::move(prompts_); }

 private:
  std::vector<PromptText> prompts_;
  std::unordered_multimap<std::size_t, std::size_t> by_hash_;  // hash of a prompt: its index
};

}  // namespace dpo::data
