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

// Why an example is dropped.
enum class DropReason { EosInText, EmptyResponse, EqualResponses, NoRoom };
inline constexpr std::size_t kDropReasons = 4;
inline constexpr std::array<const char*, kDropReasons> kDropReasonKeys = {"eos_in_text", "empty_response",
                                                                          "equal_responses", "no_room"};

// What a source contains, and what is used of it.
struct SourceCounts {
  std::string name;
  std::int64_t rows = 0;
  std::int64_t bad_rows = 0;
  std::int64_t prompts = 0;
  std::int64_t pairs = 0;
  std::int64_t rankings = 0;
  std::int64_t ranked = 0;           // responses in all rankings
  std::int64_t longest_ranking = 2;  // in responses
  std::int64_t labels = 0;           // responses that are good or bad by themselves
  std::int64_t desirable = 0;        // good ones of these
  // Used pairs, rankings, or for SFT prompts; repeated as the data set's weight says.
  std::int64_t examples = 0;
  std::int64_t distinct = 0;     // before they are repeated; those below are counted once too
  std::int64_t weighted = 0;     // examples with a weight other than 1
  std::int64_t with_margin = 0;  // pairs with a margin other than 0, even if the examples are rankings
  std::array<std::int64_t, kDropReasons> dropped{};
  std::int64_t truncated_prompts = 0;    // examples with a truncated prompt
  std::int64_t truncated_responses = 0;  // examples with a truncated response
  // Examples of chats, by their flags in the token file.
  std::int64_t turns_dropped = 0;
  std::int64_t boundaries_moved = 0;
  std::int64_t ends_added = 0;
};

// Truncates a prompt and its responses as the original does: if prompt and longest response together are too
// long, the prompt to its own limit; if they still are, the responses to max_length - max_prompt_length.
Example truncate(std::span<const Token> prompt, std::vector<std::span<const Token>> responses,
                 Truncation truncation, std::int64_t max_length, std::int64_t max_prompt_length);

// What an example has lost to max_length.
struct Cut {
  bool prompt = false, response = false;
  bool turns = false;  // of its conversation
};

// `flags`: of the prompt and the responses (TextFlags).
Cut cut_of(const Example& truncated, std::span<const Token> prompt,
           const std::vector<std::span<const Token>>& responses, std::uint8_t flags);

// Where an example comes from.
struct ExampleOrigin {
  std::uint32_t source = 0;
  std::uint32_t prompt = 0;
  std::uint32_t number = 0;  // index of the pair or ranking; labels are counted after the pairs
};

// The examples of a split, prompt by prompt.
struct ExampleList {
  std::vector<ExampleOrigin> origins;
  std::vector<std::uint32_t> starts = {0};  // [prompts + 1], the first example of each prompt

  std::uint32_t size() const { return static_cast<std::uint32_t>(origins.size()); }

  // Adds the examples of a prompt as often as the weight of its source says, and returns how often: 2 repeats
  // every prompt, 0.5 takes every second one. A prompt without examples is added too: the original's order
  // counts it.
  std::int64_t add_prompt(std::uint32_t prompt, std::span<const ExampleOrigin> examples, double weight);
};

// The weight of a source. In evaluation it is 1: each prompt counts once.
double weight_of(const Source& source, const config::RunConfig& config);

// All examples of one split. Their tokens are views into token files that this keeps open.
class Examples {
 public:
  // Reads and tokenizes (or takes from the cache), then drops examples as `data` says.
  static Examples load(const config::RunConfig& config, Split split, const text::Tokenizer& tokenizer,
                       TokenCache& cache);

  // The same if all tokens are in the cache; otherwise nullopt, and nothing is read or written.
  static std::optional<Examples> find(const config::RunConfig& config, Split split,
                                      const text::Tokenizer& tokenizer, TokenCache& cache);

  std::uint32_t size() const { return list_.size(); }
  Example at(std::uint32_t i) const;

  // [prompts + 1], the first example of each prompt, for ExampleOrder.
  std::span<const std::uint32_t> starts() const { return list_.starts; }
  const ExampleList& list() const { return list_; }

  ExampleKind kind() const { return kind_; }
  // The responses of an example (indices into its prompt's), the preferred first.
  std::vector<std::uint32_t> responses_of(const ExampleOrigin& origin) const;
  // The label of an example that is a single response of an unpaired loss; null for all others.
  const Label* label_of(const ExampleOrigin& origin) const;
  const TokenFile& tokens(std::uint32_t source) const { return files_[source]; }
  const Source& source(std::uint32_t source) const { return sources_[source]; }
  bool has_chats() const { return std::ranges::any_of(sources_, &Source::chat); }
  // Whether data.test_share divides any of the files.
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

// SHA-256 of the tokens of all examples after truncation, and of all else that their losses depend on.
std::string digest_of(const Examples& examples);
// SHA-256 of the texts of some examples as the files have them. It does not depend on their order, nor on
// tokenizer, template and length limits: runs of different models can be evaluated on the same examples.
std::string digest_of_texts(const Examples& examples, std::span<const std::uint32_t> indices);
// Adds one example to the hash of digest_of.
void add_example(Sha256& sum, const Example& example);

// The order of training and of evaluation. Too few examples for a training batch, or none for evaluation, is
// a UserError.
ExampleOrder training_order(const ExampleList& examples, const config::RunConfig& config);
ExampleOrder evaluation_order(const ExampleList& examples, const config::RunConfig& config);

// A note for the user if the test split has fewer examples than an evaluation may use; otherwise empty.
std::string evaluation_note(const Examples& test, const config::RunConfig& config);

}  // namespace dpo::data
