#include "data/examples.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/quantity.h"
#include "base/sha256.h"
#include "config/evaluation.h"
#include "config/text.h"

namespace dpo::data {
namespace {

std::size_t size_of(std::int64_t length) {
  return static_cast<std::size_t>(std::max<std::int64_t>(length, 0));
}

config::BadExamplePolicy policy_of(const config::DataConfig& policies, DropReason reason) {
  switch (reason) {
    case DropReason::EosInText: return policies.eos_in_text;
    case DropReason::EmptyResponse: return policies.empty_response;
    case DropReason::EqualResponses: return policies.equal_responses;
    case DropReason::NoRoom: break;
  }
  return policies.no_room;
}

bool has_equals(const std::vector<std::span<const Token>>& responses) {
  for (std::size_t i = 0; i < responses.size(); ++i)
    for (std::size_t j = i + 1; j < responses.size(); ++j)
      if (std::ranges::equal(responses[i], responses[j])) return true;
  return false;
}

ExampleOrder make_order(const ExampleList& examples, const config::RunConfig& config, OrderLimits limits,
                        const std::string& batch_key, const std::string& split) {
  if (examples.size() == 0)
    throw UserError(fmt::format(
        "the {} split has no examples: none were given, or all were dropped; 'dpo data' with the same keys "
        "shows how many and why",
        split));
  if (examples.size() < limits.batch_size)
    throw UserError(fmt::format(
        "{0}={1}: the {2} split has only {3}, fewer than a batch; write {0}={4}, or give more data",
        batch_key, limits.batch_size, split, plural(examples.size(), "example"), examples.size()));
  return {examples.starts, static_cast<std::uint32_t>(config.data_seed), limits};
}

}  // namespace

std::vector<TokenRange> Example::unscored_of(std::size_t response) const {
  const auto size = static_cast<std::uint32_t>(responses[response].size());
  std::vector<TokenRange> within;
  for (const TokenRange& range : unscored.empty() ? std::span<const TokenRange>() : unscored[response])
    if (range.begin < size) within.push_back({range.begin, std::min(range.end, size)});
  return within;
}

std::size_t Example::scored_tokens(std::size_t response) const {
  std::size_t scored = responses[response].size();
  for (const TokenRange& range : unscored_of(response)) scored -= range.end - range.begin;
  return scored;
}

Example truncate(std::span<const Token> prompt, std::vector<std::span<const Token>> responses,
                 Truncation truncation, std::int64_t max_length, std::int64_t max_prompt_length) {
  std::size_t longest = 0;
  for (const auto& response : responses) longest = std::max(longest, response.size());
  const auto is_too_long = [&] { return prompt.size() + longest > size_of(max_length); };
  if (is_too_long()) {
    const std::size_t kept = std::min(prompt.size(), size_of(max_prompt_length));
    prompt = truncation == Truncation::KeepEnd ? prompt.last(kept) : prompt.first(kept);
  }
  if (is_too_long())
    for (auto& response : responses)
      response = response.first(std::min(response.size(), size_of(max_length - max_prompt_length)));
  Example example;
  example.prompt = prompt;
  example.responses = std::move(responses);
  return example;
}

Cut cut_of(const Example& truncated, std::span<const Token> prompt,
           const std::vector<std::span<const Token>>& responses, std::uint8_t flags) {
  Cut cut{truncated.prompt.size() < prompt.size(), false, (flags & kTurnsDropped) != 0};
  for (std::size_t i = 0; i < responses.size(); ++i)
    cut.response |= truncated.responses[i].size() < responses[i].size();
  return cut;
}

std::int64_t ExampleList::add_prompt(std::uint32_t prompt, std::span<const ExampleOrigin> examples,
                                     double weight) {
  const auto before = static_cast<std::int64_t>(std::floor(prompt * weight));
  const auto after = static_cast<std::int64_t>(std::floor((prompt + 1.0) * weight));
  for (std::int64_t copy = before; copy < after; ++copy) {
    origins.insert(origins.end(), examples.begin(), examples.end());
    starts.push_back(size());
  }
  return after - before;
}

double weight_of(const Source& source, const config::RunConfig& config) {
  const auto weight = config.data.weights.find(source.name);
  return weight == config.data.weights.end() || source.split == Split::Test ? 1 : weight->second;
}

Examples::Examples(const config::RunConfig& config)
    : policies_(config.data),
      max_length_(config.max_length),
      max_prompt_length_(config.max_prompt_length),
      loss_(config.loss),
      kind_(facts_of(config.loss.name).examples) {}

Examples Examples::load(const config::RunConfig& config, Split split, const text::Tokenizer& tokenizer,
                        TokenCache& cache) {
  Examples examples(config);
  examples.sources_ = find_sources(config, split);
  for (std::uint32_t i = 0; i < examples.sources_.size(); ++i) {
    examples.files_.push_back(load_tokens(examples.sources_[i], config, tokenizer, cache));
    examples.add_source(i, weight_of(examples.sources_[i], config));
  }
  return examples;
}

std::optional<Examples> Examples::find(const config::RunConfig& config, Split split,
                                       const text::Tokenizer& tokenizer, TokenCache& cache) {
  Examples examples(config);
  examples.sources_ = find_sources(config, split);
  for (const Source& source : examples.sources_) {
    std::optional<TokenFile> file = find_tokens(source, config, tokenizer, cache);
    if (!file) return std::nullopt;
    examples.files_.push_back(std::move(*file));
  }
  for (std::uint32_t i = 0; i < examples.sources_.size(); ++i)
    examples.add_source(i, weight_of(examples.sources_[i], config));
  return examples;
}

void Examples::add_source(std::uint32_t source, double weight) {
  const TokenFile& file = files_[source];
  SourceCounts counts;
  counts.name = sources_[source].name;
  counts.rows = file.rows();
  counts.bad_rows = file.bad_rows();
  counts.prompts = file.prompts();
  DataFormatCheck form(loss_);
  for (std::uint32_t p = 0; p < file.prompts(); ++p) {
    if (file.prompt_flags(p) & kRefused) {
      list_.add_prompt(p, {}, weight);
      --counts.prompts;
      continue;
    }
    const Preferences preferences = preferences_of(file, p);
    form.add(preferences);
    counts.pairs += std::ssize(preferences.pairs);
    counts.labels += std::ssize(preferences.labels);
    counts.desirable += std::ranges::count(preferences.labels, true, &Label::desirable);
    if (kind_ != ExampleKind::Target)
      for (const Pair& pair : file.pairs(p)) counts.with_margin += pair.margin != 0;
    counts.rankings += file.rankings(p);
    for (std::uint32_t i = 0; i < file.rankings(p); ++i) {
      const auto responses = static_cast<std::int64_t>(file.ranking(p, i).responses.size());
      counts.ranked += responses;
      counts.longest_ranking = std::max(counts.longest_ranking, responses);
    }
    std::vector<ExampleOrigin> kept;
    for (std::uint32_t number = 0; number < count_examples(preferences, kind_); ++number)
      if (const ExampleOrigin origin{source, p, number}; keeps(origin, counts)) kept.push_back(origin);
    counts.examples += list_.add_prompt(p, kept, weight) * static_cast<std::int64_t>(kept.size());
  }
  form.finish(counts.name);
  counts_.push_back(std::move(counts));
}

std::vector<std::uint32_t> Examples::responses_of(const ExampleOrigin& origin) const {
  const TokenFile& file = files_[origin.source];
  if (kind_ == ExampleKind::Target) return {file.sft_target(origin.prompt)};
  if (kind_ == ExampleKind::Ranking) return file.ranking(origin.prompt, origin.number).responses;
  if (const Label* label = label_of(origin)) return {label->response};
  const Pair& pair = file.pairs(origin.prompt)[origin.number];
  return {pair.chosen, pair.rejected};
}

const Label* Examples::label_of(const ExampleOrigin& origin) const {
  const std::size_t pairs = files_[origin.source].pairs(origin.prompt).size();
  if (kind_ != ExampleKind::Unpaired || origin.number < pairs) return nullptr;
  return &files_[origin.source].labels(origin.prompt)[origin.number - pairs];
}

std::optional<DropReason> Examples::drop_reason(const ExampleOrigin& origin) const {
  const TokenFile& file = files_[origin.source];
  std::uint8_t responses = 0;
  for (const std::uint32_t response : responses_of(origin))
    responses |= file.response_flags(origin.prompt, response);
  const auto applies = [&](DropReason reason) {
    return policy_of(policies_, reason) != config::BadExamplePolicy::keep;
  };
  if (((responses | file.prompt_flags(origin.prompt)) & kHasEos) && applies(DropReason::EosInText))
    return DropReason::EosInText;
  if ((responses & kIsEmpty) && applies(DropReason::EmptyResponse)) return DropReason::EmptyResponse;
  const Example example = make(origin);
  bool nothing_scored = false;
  for (std::size_t i = 0; i < example.responses.size(); ++i) nothing_scored |= example.scored_tokens(i) == 0;
  if (nothing_scored && applies(DropReason::NoRoom)) return DropReason::NoRoom;
  if (has_equals(example.responses) && applies(DropReason::EqualResponses)) return DropReason::EqualResponses;
  return std::nullopt;
}

bool Examples::keeps(const ExampleOrigin& origin, SourceCounts& counts) const {
  if (const auto reason = drop_reason(origin)) {
    const auto index = static_cast<std::size_t>(*reason);
    if (policy_of(policies_, *reason) == config::BadExamplePolicy::fail)
      throw UserError(fmt::format(
          "data.{0}=fail: found in '{1}', prompt {2} (counting distinct prompts from 0), response {3}; "
          "data.{0}=drop drops and counts such examples",
          kDropReasonKeys[index], config::shown(counts.name), origin.prompt,
          fmt::join(responses_of(origin), " or ")));
    ++counts.dropped[index];
    return false;
  }
  count(origin, counts);
  return true;
}

void Examples::count(const ExampleOrigin& origin, SourceCounts& counts) const {
  const TokenFile& file = files_[origin.source];
  const Example example = make(origin);
  std::vector<std::span<const Token>> responses;
  std::uint8_t flags = file.prompt_flags(origin.prompt);
  for (const std::uint32_t response : responses_of(origin)) {
    responses.push_back(file.response(origin.prompt, response));
    flags |= file.response_flags(origin.prompt, response);
  }
  const Cut cut = cut_of(example, file.prompt(origin.prompt), responses, flags);
  ++counts.distinct;
  counts.truncated_responses += cut.response;
  counts.truncated_prompts += cut.prompt;
  counts.turns_dropped += cut.turns;
  counts.weighted += example.weight != 1;
  counts.boundaries_moved += (flags & kBoundaryMoved) != 0;
  counts.ends_added += (flags & kEndAdded) != 0;
}

Example Examples::make(const ExampleOrigin& origin) const {
  const TokenFile& file = files_[origin.source];
  std::vector<std::span<const Token>> responses;
  std::vector<std::span<const TokenRange>> unscored;
  bool any_unscored = false;
  for (const std::uint32_t response : responses_of(origin)) {
    responses.push_back(file.response(origin.prompt, response));
    unscored.push_back(file.unscored(origin.prompt, response));
    any_unscored |= !unscored.back().empty();
  }
  Example example = truncate(file.prompt(origin.prompt), std::move(responses),
                             sources_[origin.source].truncation(), max_length_, max_prompt_length_);
  if (any_unscored) example.unscored = std::move(unscored);
  if (const Label* label = label_of(origin)) {
    example.weight = label->weight;
    example.desirable = label->desirable;
  } else if (kind_ == ExampleKind::Pair || kind_ == ExampleKind::Unpaired) {
    const Pair& pair = file.pairs(origin.prompt)[origin.number];
    example.weight = pair.weight;
    example.margin = pair.margin;
    example.full_tokens = std::min(example.responses[0].size(), example.responses[1].size());
    example.tail_weight = static_cast<float>(loss_.length_alpha);
  } else if (kind_ == ExampleKind::Ranking) {
    example.weight = file.ranking(origin.prompt, origin.number).weight;
  }
  return example;
}

Example Examples::at(std::uint32_t i) const { return make(list_.origins[i]); }

void add_example(Sha256& sum, const Example& example) {
  const auto add = [&sum](std::span<const Token> tokens) {
    const auto size = static_cast<std::uint64_t>(tokens.size());
    sum.add(std::as_bytes(std::span(&size, 1)));
    sum.add(std::as_bytes(tokens));
  };
  add(example.prompt);
  for (const auto& response : example.responses) add(response);
  if (example.tail_weight != 1)
    sum.add(fmt::format("{} tokens, then {}", example.full_tokens, example.tail_weight));
  if (example.weight != 1 || example.margin != 0)
    sum.add(fmt::format("weight {}, margin {}", example.weight, example.margin));
  for (std::size_t r = 0; r < example.unscored.size(); ++r)
    for (const TokenRange& range : example.unscored_of(r))
      sum.add(fmt::format("not scored {} {} to {}", r, range.begin, range.end));
  if (!example.desirable) sum.add("undesirable");
}

std::string digest_of(const Examples& examples) {
  Sha256 sum;
  for (std::uint32_t i = 0; i < examples.size(); ++i) add_example(sum, examples.at(i));
  return to_hex(sum.finish());
}

std::string digest_of_texts(const Examples& examples, std::span<const std::uint32_t> indices) {
  std::vector<std::string> texts;
  for (const std::uint32_t i : indices) {
    const ExampleOrigin& origin = examples.list().origins[i];
    texts.push_back(
        fmt::format("{:x} {}\n", examples.tokens(origin.source).text_hash(origin.prompt), origin.number));
  }
  std::ranges::sort(texts);
  Sha256 sum;
  for (const std::string& text : texts) sum.add(text);
  return to_hex(sum.finish());
}

ExampleOrder training_order(const ExampleList& examples, const config::RunConfig& config) {
  return make_order(examples, config, {config.batch_size, config.n_epochs, config.n_examples}, "batch_size",
                    "train");
}

std::string evaluation_note(const Examples& test, const config::RunConfig& config) {
  const std::string note = config::evaluation_size(config, test.size()).note;
  if (note.empty() || !test.is_split_by_hash()) return note;
  return note + " (data.test_share=0.1 keeps a tenth of your own files for testing)";
}

ExampleOrder evaluation_order(const ExampleList& examples, const config::RunConfig& config) {
  const config::EvaluationSize size = config::evaluation_size(config, examples.size());
  return make_order(examples, config, {size.batch, 1, size.examples, /*keeps_all=*/true}, "eval_batch_size",
                    "test");
}

}  // namespace dpo::data
