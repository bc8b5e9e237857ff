#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dpo::data {

// Two responses of a prompt, as indices.
struct Pair {
  std::uint32_t chosen = 0;
  std::uint32_t rejected = 0;
  float weight = 1;  // in the loss
  float margin = 0;  // how far the chosen response should lead, in rewards
};

// Two or more responses of a prompt, as indices, the best first.
struct Ranking {
  std::vector<std::uint32_t> responses;
  float weight = 1;
};

// A response of a prompt, as an index, that is labelled as good or bad.
struct Label {
  std::uint32_t response = 0;
  bool desirable = true;
  float weight = 1;  // in the loss
};

// The origin of a row: the index of its file in the source, and its line.
struct RowOrigin {
  std::uint32_t file = 0;
  std::int64_t line = 0;

  bool operator==(const RowOrigin&) const = default;
};

// A prompt with all its responses and preferences in a data set.
struct PromptText {
  std::string prompt;
  std::vector<std::string> responses;
  bool chat = false;               // true if prompt and responses are messages as JSON, not plain text
  std::vector<RowOrigin> origins;  // the row of each response of a chat
  std::vector<Pair> pairs;
  std::vector<Ranking> rankings;  // the same preferences as lists, one per row
  std::vector<Label> labels;
  bool own_entry = false;        // true if made by PromptTexts::add
  std::uint64_t split_hash = 0;  // decides the split of a row of the user's own files
  std::uint32_t sft_target = 0;  // the response to imitate
  std::vector<double> scores;    // scores of the responses, if the data set has them

  // Adds a pair, which is also a ranking of two.
  void add_pair(const Pair& pair);
};

// Returns a hash that depends on the text only, so that it is the same in every run.
std::uint64_t split_hash_of(std::string_view text);
bool is_in_test_split(std::uint64_t split_hash, double test_share);

// Returns the smallest share with which a text of this hash is in the test split.
double share_that_takes(std::uint64_t split_hash);

// Returns the prompt without the responses of a row and their preferences.
PromptText without_row(const PromptText& prompt, RowOrigin row);

// Returns the indices of responses from best to worst, by their scores. Only the first of several equal
// scores is used. The data give no order between them, and under the Plackett-Luce model the order of the
// rest has the same probability without the others.
std::vector<std::uint32_t> ranked_by(const std::vector<double>& scores);

// The prompts of a data set in order of first appearance. Equal prompts are merged if they were made by at().
class PromptTexts {
 public:
  // Returns the entry of this prompt, and creates it if it is new. Never returns entries made by add().
  PromptText& at(std::string prompt);

  // Makes a new entry, even if there is one with this prompt, for a row that is a separate example.
  PromptText& add(std::string prompt);

  // Adds another row. It is merged into the entry of its prompt unless the row is a separate example.
  void append(PromptText&& more);

  std::vector<PromptText> take() && { return std::move(prompts_); }

 private:
  std::vector<PromptText> prompts_;
  std::unordered_multimap<std::size_t, std::size_t> by_hash_;  // from the hash of a prompt to its index
};

}  // namespace dpo::data
