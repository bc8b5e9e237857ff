#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace dpo::plan {

// Origin of lengths: statistics of a data set, or the run's own data, at four bytes per token, with a sample
// tokenized, or with everything tokenized.
enum class LengthBasis { statistics, bytes, sample, tokens };

// Examples of a data set that lose something to max_length.
struct CutExamples {
  std::string source;
  std::int64_t examples = 0;  // number of examples looked at
  std::int64_t prompts = 0, responses = 0;
  std::int64_t turns = 0;  // examples that lose turns of their conversation
};

// Truncated examples, counted for these limits only.
struct Cuts {
  std::int64_t max_length = 0, max_prompt_length = 0;
  std::vector<CutExamples> sources{};
};

// Lengths of the texts of a data set, in tokens before truncation, and their number.
struct Lengths {
  std::string name;
  LengthBasis basis = LengthBasis::statistics;
  std::int64_t train_prompts = 0, train_pairs = 0;
  std::int64_t train_rankings = 0, train_ranked = 0;   // rankings, and the responses in them
  std::int64_t train_labels = 0, train_desirable = 0;  // labelled responses, and the good ones of them
  std::int64_t test_prompts = 0, test_pairs = 0, test_rankings = 0, test_labels = 0;
  std::vector<double> prompt;    // means of equal parts of the prompts, ascending
  std::vector<double> response;  // means for responses, with their end-of-text token
  double longest_prompt = 0, longest_response = 0;
  double longest_ranking = 2;  // in responses
  double scored = 1;           // share of the responses' tokens that the head computes
  Cuts cuts{};                 // of the examples in a sample, or of all (`basis`)
};

Lengths load_lengths(const std::string& name_or_file);

// Returns the extremes of data that was not counted: many texts of the greatest length, and a single batch of
// the shortest.
std::vector<Lengths> extreme_lengths(std::int64_t max_length, std::int64_t batch_size);

// Cost of one example (a prompt with its responses) after truncation, with each token computed once.
struct ExampleTokens {
  double mean = 0;       // tokens
  double deviation = 0;  // standard deviation of that
  double largest = 0;
  double response_mean = 0;  // tokens of responses: rows of the head
  double response_largest = 0;
  double attended = 0;  // pairs (query, key) of causal attention, mean
  double repeated = 0;  // tokens if every response carried its own copy of the prompt, mean
};

// Number of responses of an example: 1 for SFT, 2 for a preference pair.
struct ResponseCount {
  double mean = 2, most = 2, least = 2;
};

// Computes the cost of one example. Assumes that prompt and response lengths are independent.
ExampleTokens example_tokens(const Lengths& lengths, std::int64_t max_length, std::int64_t max_prompt_length,
                             ResponseCount responses);

// Lengths of one example after truncation, in tokens.
struct SampledExample {
  std::int64_t prompt = 0;
  std::vector<std::int64_t> responses;
};

// Draws an example, with the same assumption. Prompts, or responses, of every part are equally likely.
SampledExample sample_example(const Lengths& lengths, std::int64_t max_length, std::int64_t max_prompt_length,
                              ResponseCount responses, std::mt19937_64& random);

}  // namespace dpo::plan
