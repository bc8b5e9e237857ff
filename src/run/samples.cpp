#include "run/samples.h"

#include <algorithm>
#include <chrono>

#include <ATen/ops/tensor.h>
#include <nlohmann/json.hpp>

#include "base/parse_json.h"

namespace dpo::run {
namespace {

std::vector<model::Prompt> prompts_of(std::span<const train::ExampleBatch> evaluation, std::int64_t most) {
  std::vector<model::Prompt> prompts;
  for (const train::ExampleBatch& batch : evaluation)
    for (const data::Example& example : batch.examples)
      if (static_cast<std::int64_t>(prompts.size()) < most && !example.prompt.empty())
        prompts.push_back({example.prompt, prompts.size()});
  return prompts;
}

// Replaces invalid UTF-8, because text that a tokenizer decodes is not always valid.
std::string line_of(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// Stops at the same token on all ranks, because the clock of rank 0 decides.
class TimeLimit {
 public:
  TimeLimit(std::optional<double> seconds, comm::Group& all) : seconds_(seconds), all_(all) {}

  // A collective call.
  bool is_over() const {
    if (!seconds_) return false;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
    const at::Tensor over = at::tensor({passed.count() > *seconds_ ? 1 : 0}, at::kLong);
    all_.broadcast(over, 0).wait();
    return over.item<std::int64_t>() != 0;
  }

 private:
  std::optional<double> seconds_;
  comm::Group& all_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Returns the sample's text as it is shown to people.
std::string shown(const Sample& sample) { return sample.text + (sample.cut ? " [cut]" : ""); }

}  // namespace

std::vector<Sample> draw_samples(const model::Model& model, model::Store& store,
                                 std::span<const train::ExampleBatch> evaluation,
                                 const text::Tokenizer& tokenizer, std::span<const data::Token> ends,
                                 const config::RunConfig& config, const plan::Sampled& limits,
                                 comm::Group& all, const OnStep& on_step) {
  const std::vector<model::Prompt> prompts = prompts_of(evaluation, limits.texts);
  if (prompts.empty()) return {};
  // The prompt counts inside max_length, as in the original.
  std::vector<std::int64_t> room;
  for (const model::Prompt& prompt : prompts)
    room.push_back(
        std::max<std::int64_t>(1, config.max_length - static_cast<std::int64_t>(prompt.tokens.size())));
  model::GenerateOptions options;
  options.max_new_tokens = std::min(*std::max_element(room.begin(), room.end()), limits.tokens);
  options.eos = {ends.begin(), ends.end()};
  options.seed = static_cast<std::uint64_t>(config.seed);
  // Tokens are broadcast because machines may round differently, and a rank that ends a sample earlier would
  // leave the others waiting.
  const TimeLimit time(limits.seconds, all);
  std::int64_t steps = 0;
  bool is_over = false;
  options.broadcast = [&](const at::Tensor& tokens) {
    all.broadcast(tokens, 0).wait();
    is_over = time.is_over();
    if (on_step) on_step(++steps, options.max_new_tokens);
  };
  std::vector<std::int64_t> generated(prompts.size());
  const auto responses = model::generate(model, store, prompts, options, [&](std::size_t i, data::Token) {
    return ++generated[i] < room[i] && !is_over;
  });
  if (on_step) on_step(options.max_new_tokens, options.max_new_tokens);
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto tokens = static_cast<std::int64_t>(responses[i].tokens.size());
    const bool ended = responses[i].finish == model::Finish::eos;
    samples.push_back({tokenizer.decode(prompts[i].tokens),
                       tokenizer.decode(responses[i].tokens, /*skip_special=*/true), tokens, ended,
                       !ended && tokens < room[i]});
  }
  return samples;
}

std::vector<track::SampleText> sample_texts(std::span<const Sample> policy,
                                            std::span<const Sample> reference) {
  std::vector<track::SampleText> texts;
  for (std::size_t i = 0; i < policy.size(); ++i)
    texts.push_back({policy[i].prompt, shown(policy[i]),
                     i < reference.size() ? std::optional(shown(reference[i])) : std::nullopt});
  return texts;
}

std::vector<std::string> example_lines(std::span<const train::ExampleBatch> evaluation,
                                       const text::Tokenizer& tokenizer) {
  std::vector<std::string> lines;
  for (const train::ExampleBatch& batch : evaluation)
    for (std::size_t i = 0; i < batch.examples.size(); ++i) {
      std::vector<std::string> responses;
      for (const std::span<const data::Token> response : batch.examples[i].responses)
        responses.push_back(tokenizer.decode(response, /*skip_special=*/true));
      lines.push_back(line_of({{"example", batch.indices[i]},
                               {"prompt", tokenizer.decode(batch.examples[i].prompt)},
                               {"responses", responses}}));
    }
  return lines;
}

std::vector<std::string> to_json_lines(std::span<const Sample> policy, std::span<const Sample> reference) {
  using nlohmann::ordered_json;
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < policy.size(); ++i) {
    ordered_json line{{"prompt", policy[i].prompt},
                      {"policy", policy[i].text},
                      {"policy_tokens", policy[i].tokens},
                      {"policy_ended", policy[i].ended}};
    if (policy[i].cut) line["policy_cut"] = true;
    if (i < reference.size()) line["reference"] = reference[i].text;
    if (i < reference.size() && reference[i].cut) line["reference_cut"] = true;
    lines.push_back(line_of(line));
  }
  return lines;
}

std::optional<Sample> parse_sample(std::string_view line) {
  const auto object = parse_json(line);
  if (!object.is_object()) return std::nullopt;
  const auto at = [&](const char* name) { return object.value(name, nlohmann::json()); };
  const auto prompt = at("prompt"), text = at("policy"), tokens = at("policy_tokens"),
             ended = at("policy_ended");
  if (!prompt.is_string() || !text.is_string() || !tokens.is_number_integer() || !ended.is_boolean())
    return std::nullopt;
  const auto count = tokens.get<std::int64_t>();  // negative if the number does not fit
  if (count < 0) return std::nullopt;
  return Sample{prompt.get<std::string>(), text.get<std::string>(), count, ended.get<bool>(),
                at("policy_cut") == true};
}

}  // namespace dpo::run
