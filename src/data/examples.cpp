#include "data/examples.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "config/text.h"

namespace dpo::data {
namespace {

std::size_t size_of(std::int64_t length) {
  return static_cast<std::size_t>(std::max<std::int64_t>(length, 0));
}

const std::string& policy_of(const config::DataConfig& policies, Reason reason) {
  switch (reason) {
    case Reason::EosInText: return policies.eos_in_text;
    case Reason::EmptyResponse: return policies.empty_response;
    case Reason::EqualResponses: return policies.equal_responses;
    default: return policies.no_room;
  }
}

ExampleOrder make_order(const ExampleList& examples, const config::RunConfig& config, OrderLimits limits,
                        const char* batch_key, const char* split) {
  if (examples.size() < limits.batch_size)
    throw UserError(
        fmt::format("{}={}: the {} split has only {} example(s), fewer than a batch; give more data or a "
                    "smaller batch",
                    batch_key, limits.batch_size, split, examples.size()));
  return {examples.starts, static_cast<std::uint32_t>(config.data_seed), limits};
}

}  // namespace

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
  return {prompt, std::move(responses), 0};
}

std::int64_t ExampleList::add_prompt(std::uint32_t prompt, std::span<const Place> examples, double weight) {
  const auto before = static_cast<std::int64_t>(std::floor(prompt * weight));
  const auto after = static_cast<std::int64_t>(std::floor((prompt + 1.0) * weight));
  for (std::int64_t copy = before; copy < after; ++copy) {
    places.insert(places.end(), examples.begin(), examples.end());
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
      sft_(config.loss.name == "sft") {}

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

void Examples::add_source(std::uint32_t source, double weight) {
  const TokenFile& file = files_[source];
  SourceCounts counts;
  counts.name = sources_[source].name;
  counts.rows = file.rows();
  counts.bad_rows = file.bad_rows();
  counts.prompts = file.prompts();
  for (std::uint32_t p = 0; p < file.prompts(); ++p) {
    counts.pairs += static_cast<std::int64_t>(file.pairs(p).size());
    std::vector<Place> wanted;
    const Pair target{file.sft_target(p), file.sft_target(p)};
    for (const Pair& pair : sft_ ? std::span(&target, 1) : file.pairs(p))
      if (const Place place{source, p, pair}; is_wanted(place, counts)) wanted.push_back(place);
    counts.examples += list_.add_prompt(p, wanted, weight) * static_cast<std::int64_t>(wanted.size());
  }
  counts_.push_back(std::move(counts));
}

std::optional<Reason> Examples::reason_to_leave(const Place& place) const {
  const TokenFile& file = files_[place.source];
  const auto flags = [&](std::uint32_t response) { return file.response_flags(place.prompt, response); };
  const std::uint8_t responses = flags(place.pair.better) | flags(place.pair.worse);
  const auto applies = [&](Reason reason) { return policy_of(policies_, reason) != "keep"; };
  if (((responses | file.prompt_flags(place.prompt)) & kHasEos) && applies(Reason::EosInText))
    return Reason::EosInText;
  if ((responses & kIsEmpty) && applies(Reason::EmptyResponse)) return Reason::EmptyResponse;
  const Example example = make(place);
  const auto is_empty = [](std::span<const Token> response) { return response.empty(); };
  if (std::any_of(example.responses.begin(), example.responses.end(), is_empty) && applies(Reason::NoRoom))
    return Reason::NoRoom;
  if (!sft_ && std::ranges::equal(example.responses[0], example.responses[1]) &&
      applies(Reason::EqualResponses))
    return Reason::EqualResponses;
  return std::nullopt;
}

bool Examples::is_wanted(const Place& place, SourceCounts& counts) const {
  if (const auto reason = reason_to_leave(place)) {
    const auto index = static_cast<std::size_t>(*reason);
    if (policy_of(policies_, *reason) == "fail")
      throw UserError(fmt::format(
          "data.{}=fail: '{}', prompt {} (of those with different texts, from 0), response {} or {} is such "
          "a case; "
          "drop leaves such examples out and counts them",
          kReasonKeys[index], config::shown(counts.name), place.prompt, place.pair.better, place.pair.worse));
    ++counts.dropped[index];
    return false;
  }
  const TokenFile& file = files_[place.source];
  const Example example = make(place);
  counts.cut_prompts += example.prompt.size() < file.prompt(place.prompt).size();
  counts.cut_responses +=
      example.responses[0].size() < file.response(place.prompt, place.pair.better).size() ||
      (!sft_ && example.responses[1].size() < file.response(place.prompt, place.pair.worse).size());
  return true;
}

Example Examples::make(const Place& place) const {
  const TokenFile& file = files_[place.source];
  std::vector<std::span<const Token>> responses = {file.response(place.prompt, place.pair.better)};
  if (!sft_) responses.push_back(file.response(place.prompt, place.pair.worse));
  return truncate(file.prompt(place.prompt), std::move(responses), sources_[place.source].truncation(),
                  max_length_, max_prompt_length_);
}

Example Examples::at(std::uint32_t i) const {
  Example example = make(list_.places[i]);
  example.row = i;
  return example;
}

ExampleOrder training_order(const ExampleList& examples, const config::RunConfig& config) {
  return make_order(examples, config, {config.batch_size, config.n_epochs, config.n_examples}, "batch_size",
                    "train");
}

ExampleOrder evaluation_order(const ExampleList& examples, const config::RunConfig& config) {
  return make_order(examples, config, {config.eval_batch_size, {}, config.n_eval_examples}, "eval_batch_size",
                    "test");
}

}  // namespace dpo::data
