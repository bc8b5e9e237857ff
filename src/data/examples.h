#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "config/run_config.h"
#include "data/example.h"
#include "data/order.h"
#include "data/preferences.h"
#include "data/source.h"
#include "data/token_cache.h"

namespace dpo::data {

// The reason for dropping an example.
enum class DropReason { EosInText, EmptyResponse, EqualResponses, NoRoom };
inline constexpr std::size_t kDropReasons = 4;
inline constexpr std::array<const char*, kDropReasons> kDropReasonKeys = {"eos_in_text", "empty_response",
                                                                          "equal_responses", "no_room"};

// The contents of a source, and how much of it is used.
struct SourceCounts {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t bad_rows = 0;
  std::int64_t prompts = 0;
  std::int64_t pairs = 0;
  std::int64_t rankings = 0;
  std::int64_t ranked = 0;           // responses in all rankings
  std::int64_t longest_ranking = 2;  // in responses
  std::int64_t labels = 0;           // responses labelled as good or bad
  std::int64_t desirable = 0;        // labels that are good
  // Pairs, rankings or, for SFT, prompts that are used; repeated according to the data set's weight.
  std::int64_t examples = 0;
  std::int64_t distinct = 0;     // before they are repeated; the counts below are without repeats too
  std::int64_t weighted = 0;     // examples with a weight other than 1
  std::int64_t with_margin = 0;  // pairs with a margin other than 0, even if the examples are rankings
  std::array<std::int64_t, kDropReasons> dropped{};
  std::int64_t truncated_prompts = 0;    // examples with a truncated prompt
  std::int64_t truncated_responses = 0;  // examples with a truncated response
  // Examples of chats, counted by their flags in the token file.
  std::int64_t turns_dropped = 0;
  std::int64_t boundaries_moved = 0;
  std::int64_t ends_added = 0;
};

// Truncates a prompt and its responses as the original does. If prompt and longest response together exceed
// max_length, the prompt is cut to max_prompt_length. If they are still too long, the responses are cut to
// max_length - max_prompt_length.
Example truncate(std::span<const Token> prompt, std::vector<std::span<const Token>> responses,
                 Truncation truncation, std::int64_t max_length, std::int64_t max_prompt_length);

// The parts of an example that were cut because of max_length.
struct Cut {
  bool prompt = false, response = false;
  bool turns = false;  // turns of its conversation
};

// `flags`: TextFlags of the prompt and the responses.
Cut cut_of(const Example& truncated, std::span<const Token> prompt,
           const std::vector<std::span<const Token>>& responses, std::uint8_t flags);

// The origin of an example in its source.
struct ExampleOrigin {
  std::uint32_t source = 0;
  std::uint32_t prompt = 0;
  std::uint32_t number = 0;  // index of the pair or ranking; labels are counted after the pairs
};

// The examples of a split, in order of their prompts.
struct ExampleList {
  std::vector<ExampleOrigin> origins;
  std::vector<std::uint32_t> starts = {0};  // [prompts + 1], the first example of each prompt

  std::uint32_t size() const { return static_cast<std::uint32_t>(origins.size()); }

  // Adds the examples of a prompt as often as the weight of its source requires, and returns how often. A
  // weight of 2 repeats every prompt, 0.5 takes every second one. A prompt without examples is added too,
  // because the original's order counts it.
  std::int64_t add_prompt(std::uint32_t prompt, std::span<const ExampleOrigin> examples, double weight);
};

// Returns the weight of a source. It is 1 in evaluation, where each prompt counts once.
double weight_of(const Source& source, const config::RunConfig& config);

// All examples of one split. This object keeps the token files open that the examples are views into.
class Examples {
 public:
  // Reads and tokenizes the sources, or takes them from the cache. Then drops examples according to `data`.
  static Examples load(const config::RunConfig& config, Split split, const text::Tokenizer& tokenizer,
                       TokenCache& cache);

  // Returns what load() would if all tokens are in the cache. Otherwise returns nullopt, and reads and writes
  // nothing.
  static std::optional<Examples> find(const config::RunConfig& config, Split split,
                                      const text::Tokenizer& tokenizer, TokenCache& cache);

  std::uint32_t size() const { return list_.size(); }
  Example at(std::uint32_t i) const;

  // [prompts + 1], the first example of each prompt, for ExampleOrder.
  std::span<const std::uint32_t> starts() const { return list_.starts; }
  const ExampleList& list() const { return list_; }

  ExampleKind kind() const { return kind_; }
  // Returns the responses of an example, as indices into the responses of its prompt, the preferred one
  // first.
  std::vector<std::uint32_t> responses_of(const ExampleOrigin& origin) const;
  // Returns the label of an example that is a single response of an unpaired loss, otherwise null.
  const Label* label_of(const ExampleOrigin& origin) const;
  const TokenFile& tokens(std::uint32_t source) const { return files_[source]; }
  const Source& source(std::uint32_t source) const { return sources_[source]; }
  bool has_chats() const { return std::ranges::any_of(sources_, &Source::chat); }
  // Returns whether data.test_share divides any of the files.
  bool is_split_by_hash() const { return std::ranges::any_of(sources_, &Source::by_hash); }
  const std::vector<SourceCounts>& counts() const { return counts_; }

 private:
  explicit Examples(const config::RunConfig& config);
  void add_source(std::uint32_t source, double weight);
  std::optional<DropReason> drop_reason(const ExampleOrigin& origin) const;
  bool keeps(const ExampleOrigin& origin, SourceCounts& counts) const;
  void count(const ExampleOrigin& origin, SourceCounts& counts) const;
  Example make(const ExampleOrigin& origin) const;

  config::DataConfig policies_;
  std::int64_t max_length_;
  std::int64_t max_prompt_length_;
  config::LossConfig loss_;
  ExampleKind kind_;
  std::vector<Source> sources_;
  std::vector<TokenFile> files_;
  std::vector<SourceCounts> counts_;
  ExampleList list_;
};

// Returns the SHA-256 of the tokens of all examples after truncation, and of everything else that their
// losses depend on.
std::string digest_of(const Examples& examples);
// Returns the SHA-256 of the texts of some examples as the files have them. It does not depend on their
// order, the tokenizer, the template or the length limits, so runs of different models can be evaluated on
// the same examples.
std::string digest_of_texts(const Examples& examples, std::span<const std::uint32_t> indices);
// Adds one example to the hash of digest_of.
void add_example(Sha256& sum, const Example& example);

// Return the order of training and of evaluation. Throw a UserError if there are too few examples for a
// training batch, or none for evaluation.
ExampleOrder training_order(const ExampleList& examples, const config::RunConfig& config);
ExampleOrder evaluation_order(const ExampleList& examples, const config::RunConfig& config);

// Returns a note if the test split has fewer examples than an evaluation may use, otherwise an empty string.
std::string evaluation_note(const Examples& test, const config::RunConfig& config);

}  // namespace dpo::data
