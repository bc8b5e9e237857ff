#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "data/example.h"
#include "data/order.h"
#include "data/source.h"
#include "data/token_cache.h"

namespace dpo::data {

// Why an example is not used.
enum class Reason { EosInText, EmptyResponse, EqualResponses, NoRoom };
inline constexpr std::size_t kReasons = 4;
inline constexpr std::array<const char*, kReasons> kReasonKeys = {"eos_in_text", "empty_response",
                                                                  "equal_responses", "no_room"};

// What became of a source.
struct SourceCounts {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t bad_rows = 0;
  std::int64_t prompts = 0;
  std::int64_t pairs = 0;
  std::int64_t rankings = 0;
  std::int64_t ranked = 0;           // responses in all rankings
  std::int64_t longest_ranking = 2;  // in responses
  // Used: pairs, or rankings, or for SFT prompts; with a weight of the data set, as often as they come in an
  // epoch.
  std::int64_t examples = 0;
  std::int64_t weighted = 0;     // examples with another weight than 1
  std::int64_t with_margin = 0;  // pairs with another margin than 0, also where rankings are the examples
  std::array<std::int64_t, kReasons> dropped{};
  std::int64_t cut_prompts = 0;    // examples whose prompt is truncated
  std::int64_t cut_responses = 0;  // examples with a response that is truncated
};

// Cuts a prompt and the responses that are compared behind it to their limits, as the original does: if the
// prompt and the longest response are too long together, the prompt to its own limit; if they still are, the
// responses to what that limit leaves.
Example truncate(std::span<const Token> prompt, std::vector<std::span<const Token>> responses,
                 Truncation truncation, std::int64_t max_length, std::int64_t max_prompt_length);

// What an example is: a response to imitate, two that are compared, or a whole ranking.
enum class ExampleKind { Target, Pair, Ranking };
ExampleKind example_kind(const config::LossConfig& loss);

// Where an example comes from.
struct Place {
  std::uint32_t source = 0;
  std::uint32_t prompt = 0;
  std::uint32_t number = 0;  // of the prompt's pairs or rankings
};

// How many examples of a kind a prompt has; and the responses of one, by number, the better first.
std::uint32_t count_examples(const PromptText& prompt, ExampleKind kind);
std::vector<std::uint32_t> responses_of(const PromptText& prompt, ExampleKind kind, std::uint32_t number);

// The examples of a split, prompt by prompt.
struct ExampleList {
  std::vector<Place> places;
  std::vector<std::uint32_t> starts = {0};  // [prompts + 1], the first example of each prompt

  std::uint32_t size() const { return static_cast<std::uint32_t>(places.size()); }

  // Adds the examples of a prompt as often as the weight of its source says: 2 repeats every prompt, 0.5
  // takes every second one. A prompt without examples has its place too: the original's order counts it.
  // Returns how often.
  std::int64_t add_prompt(std::uint32_t prompt, std::span<const Place> examples, double weight);
};

// The weight of a source. Evaluation looks at each prompt once, whatever its weight in training.
double weight_of(const Source& source, const config::RunConfig& config);

// All examples of one split, ready to be drawn. Their tokens are views into the token files that this keeps
// open.
class Examples {
 public:
  // Reads, tokenizes (or takes from the cache) and applies the policies.
  static Examples load(const config::RunConfig& config, Split split, const text::Tokenizer& tokenizer,
                       TokenCache& cache);

  // The same where the cache has all tokens; nothing is read or made otherwise.
  static std::optional<Examples> find(const config::RunConfig& config, Split split,
                                      const text::Tokenizer& tokenizer, TokenCache& cache);

  std::uint32_t size() const { return list_.size(); }
  Example at(std::uint32_t i) const;

  // [prompts + 1], the first example of each prompt; what ExampleOrder wants.
  std::span<const std::uint32_t> starts() const { return list_.starts; }
  const ExampleList& list() const { return list_; }

  ExampleKind kind() const { return kind_; }
  // The responses of an example before they are cut, by number in its prompt, the better first.
  std::vector<std::uint32_t> responses_of(const Place& place) const;
  const TokenFile& tokens(std::uint32_t source) const { return files_[source]; }
  const Source& source(std::uint32_t source) const { return sources_[source]; }
  const std::vector<SourceCounts>& counts() const { return counts_; }

 private:
  explicit Examples(const config::RunConfig& config);
  void add_source(std::uint32_t source, double weight);
  std::optional<Reason> reason_to_leave(const Place& place) const;
  bool is_wanted(const Place& place, SourceCounts& counts) const;
  void count(const Place& place, SourceCounts& counts) const;
  Example make(const Place& place) const;

  config::DataConfig policies_;
  std::int64_t max_length_;
  std::int64_t max_prompt_length_;
  ExampleKind kind_;
  float length_alpha_;
  std::vector<Source> sources_;
  std::vector<TokenFile> files_;
  std::vector<SourceCounts> counts_;
  ExampleList list_;
};

// The order of training, and that of the examples for evaluation. Too few examples for a batch of training,
// or none for evaluation, is a UserError.
ExampleOrder training_order(const ExampleList& examples, const config::RunConfig& config);
ExampleOrder evaluation_order(const ExampleList& examples, const config::RunConfig& config);

}  // namespace dpo::data
