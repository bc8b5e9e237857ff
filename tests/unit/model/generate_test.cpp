#include "model/generate.h"

#include <algorithm>
#include <map>
#include <set>

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/batch.h"
#include "model/init.h"
#include "model/pass.h"

namespace dpo::model {
namespace {

using Tokens = std::vector<data::Token>;

struct Loaded {
  Model model;
  Weights weights;
};

// Makes weights wide enough that one token is clearly the most likely.
Loaded make(const std::string& config_json, at::ScalarType dtype = at::kFloat) {
  Loaded made{make_model(parse_model_config(config_json, "test")), {}};
  made.weights = make_weights(made.model.table, dtype, at::kCPU);
  initialize(made.weights, made.model.table, made.model.config, 5);
  return made;
}

const std::string kLlamaConfig =
    R"({"model_type": "llama", "hidden_size": 40, "intermediate_size": 72, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 20, "vocab_size": 97,
        "max_position_embeddings": 64, "initializer_range": 0.3})";
const std::string kGpt2Config =
    R"({"model_type": "gpt2", "n_embd": 36, "n_layer": 2, "n_head": 3, "vocab_size": 89, "n_positions": 64,
        "initializer_range": 0.3})";

// Returns configurations with windows, caps, two rotary embeddings, layers without one, and longrope.
std::vector<std::string> other_configs() {
  const std::string sizes = R"(, "hidden_size": 40, "intermediate_size": 72, "num_hidden_layers": 4,
      "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 97, "max_position_embeddings": 64,
      "initializer_range": 0.3, "pad_token_id": null)";
  return {
      R"({"model_type": "gemma2", "head_dim": 20, "sliding_window": 7, "attn_logit_softcapping": 3.0,
              "final_logit_softcapping": 20.0)" +
          sizes + "}",
      R"({"model_type": "gemma3_text", "head_dim": 20, "sliding_window": 5, "sliding_window_pattern": 2)" +
          sizes + "}",
      R"({"model_type": "phi3", "original_max_position_embeddings": 56, "sliding_window": 9, "rope_scaling":
              {"type": "longrope", "short_factor": [1, 1, 2, 2, 3], "long_factor": [2, 3, 4, 5, 6]})" +
          sizes + "}",
      R"({"model_type": "olmo3", "sliding_window": 6)" + sizes + "}",
      R"({"model_type": "smollm3")" + sizes + "}",
      R"({"model_type": "cohere", "use_qk_norm": true, "logit_scale": 0.5)" + sizes + "}"};
}

const std::vector<Tokens> kTexts = {{5, 17, 3}, {8}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {60, 61}};

std::vector<Prompt> prompts_of(const std::vector<Tokens>& texts) {
  std::vector<Prompt> prompts;
  for (const Tokens& text : texts) prompts.push_back({text, prompts.size()});
  return prompts;
}

std::vector<Tokens> tokens_of(const std::vector<Generated>& results) {
  std::vector<Tokens> tokens;
  for (const Generated& result : results) tokens.push_back(result.tokens);
  return tokens;
}

std::vector<Generated> generated(const Loaded& loaded, const std::vector<Tokens>& texts,
                                 const GenerateOptions& options, const OnToken& on_token = {}) {
  const std::vector<Prompt> prompts = prompts_of(texts);
  return generate(loaded.model, loaded.weights, prompts, options, on_token);
}

GenerateOptions greedy(std::int64_t count) {
  GenerateOptions options;
  options.sampling.greedy = true;
  options.max_new_tokens = count;
  return options;
}

GenerateOptions sampled(std::int64_t count, std::uint64_t seed = 0, std::int64_t samples = 1) {
  GenerateOptions options;
  options.max_new_tokens = count;
  options.seed = seed;
  options.samples = samples;
  return options;
}

// Returns the logits after a text, computed as one sequence without the cache.
at::Tensor logits_after(const Loaded& loaded, const Tokens& text) {
  data::Example example{text, {}};
  const data::Forest forest = data::make_forest(std::span(&example, 1));
  const Batch batch = make_batch(forest, loaded.model.config.shape, at::kCPU, {.all_tokens = true});
  return all_logits(loaded.model, loaded.weights, batch)[-1];
}

Tokens greedy_without_cache(const Loaded& loaded, Tokens text, std::size_t count) {
  const std::size_t begin = text.size();
  while (text.size() < begin + count)
    text.push_back(static_cast<data::Token>(logits_after(loaded, text).argmax().item<std::int64_t>()));
  return {text.begin() + static_cast<std::ptrdiff_t>(begin), text.end()};
}

TEST(Generate, TheCacheChangesNothing) {
  const auto check = [](const std::string& config, std::size_t tokens) {
    const Loaded loaded = make(config);
    const auto results = generated(loaded, kTexts, greedy(static_cast<std::int64_t>(tokens)));
    for (std::size_t i = 0; i < kTexts.size(); ++i)
      EXPECT_EQ(results[i].tokens, greedy_without_cache(loaded, kTexts[i], tokens)) << config << i;
  };
  for (const std::string& config : {kLlamaConfig, kGpt2Config}) check(config, 40);
  for (const std::string& config : other_configs()) check(config, 16);
}

TEST(Generate, ThePenaltyCountsPromptAndText) {
  const Loaded loaded = make(kLlamaConfig);
  GenerateOptions options = greedy(20);
  options.sampling.repetition_penalty = 3;
  const std::vector<Generated> results = generated(loaded, kTexts, options);
  for (std::size_t i = 0; i < kTexts.size(); ++i) {
    Tokens text = kTexts[i];
    for (const data::Token token : results[i].tokens) {
      const at::Tensor logits = logits_after(loaded, text).unsqueeze(0);
      const at::Tensor seen = at::zeros(logits.sizes(), at::kBool);
      for (const data::Token old : text) seen[0][old].fill_(true);
      EXPECT_EQ(token, penalize_repetition(logits, seen, 3).argmax().item<std::int64_t>());
      text.push_back(token);
    }
  }
}

TEST(Generate, ABatchEqualsItsPromptsAlone) {
  const Loaded loaded = make(kLlamaConfig);
  GenerateOptions options = sampled(30, 7, 3);
  options.sampling = {.temperature = 0.8, .top_k = 40, .top_p = 0.95, .repetition_penalty = 1.1};
  options.eos = {11, 40};
  const std::vector<Generated> together = generated(loaded, kTexts, options);
  const std::vector<Prompt> prompts = prompts_of(kTexts);
  for (std::size_t i = 0; i < kTexts.size(); ++i) {
    const std::vector<Generated> alone =
        generate(loaded.model, loaded.weights, std::span(prompts).subspan(i, 1), options);
    for (std::size_t s = 0; s < 3; ++s) {
      EXPECT_EQ(together[3 * i + s].tokens, alone[s].tokens);
      EXPECT_EQ(together[3 * i + s].finish, alone[s].finish);
    }
  }
}

TEST(Generate, MoreSamplesLeaveTheFirstAsTheyAre) {
  const Loaded loaded = make(kLlamaConfig);
  const std::vector<Tokens> few = tokens_of(generated(loaded, {kTexts[0]}, sampled(20, 1, 2)));
  const std::vector<Tokens> many = tokens_of(generated(loaded, {kTexts[0]}, sampled(20, 1, 5)));
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  EXPECT_EQ(std::set<Tokens>(many.begin(), many.end()).size(), 5u);
}

TEST(Generate, ASeedDecides) {
  const Loaded loaded = make(kLlamaConfig);
  const auto tokens = [&](std::uint64_t seed) {
    return tokens_of(generated(loaded, kTexts, sampled(20, seed)));
  };
  EXPECT_EQ(tokens(3), tokens(3));
  EXPECT_NE(tokens(3), tokens(4));
  EXPECT_NE(tokens(3), tokens(3 + (1ull << 32)));
}

TEST(Generate, TopKOfOneIsGreedy) {
  const Loaded loaded = make(kLlamaConfig);
  GenerateOptions options = sampled(30);
  options.sampling.top_k = 1;
  EXPECT_EQ(tokens_of(generated(loaded, kTexts, options)), tokens_of(generated(loaded, kTexts, greedy(30))));
}

TEST(Generate, SamplesFollowTheModelsDistribution) {
  const Loaded loaded = make(kLlamaConfig);
  constexpr std::int64_t kCount = 4000;
  std::map<data::Token, double> shares;
  for (const Generated& result : generated(loaded, {kTexts[0]}, sampled(1, 9, kCount)))
    shares[result.tokens[0]] += 1.0 / kCount;
  const at::Tensor expected = logits_after(loaded, kTexts[0]).softmax(0);
  for (data::Token token = 0; token < 97; ++token) {
    const double p = expected[token].item<double>();
    EXPECT_NEAR(shares[token], p, 5 * std::sqrt(p * (1 - p) / kCount) + 1e-9) << token;
  }
}

TEST(Generate, EndsAfterAnyEosToken) {
  const Loaded loaded = make(kLlamaConfig);
  const std::vector<Generated> whole = generated(loaded, kTexts, greedy(30));
  GenerateOptions options = greedy(30);
  options.eos = {whole[0].tokens[4], whole[2].tokens[9]};
  const std::vector<Generated> results = generated(loaded, kTexts, options);
  for (std::size_t i = 0; i < kTexts.size(); ++i) {
    const Tokens& all = whole[i].tokens;
    const auto end = std::find_first_of(all.begin(), all.end(), options.eos.begin(), options.eos.end());
    EXPECT_EQ(results[i].finish, end == all.end() ? Finish::length : Finish::eos);
    EXPECT_EQ(results[i].tokens, Tokens(all.begin(), end == all.end() ? end : end + 1));
  }
}

TEST(Generate, TellsTokensAndCanBeStopped) {
  const Loaded loaded = make(kLlamaConfig);
  const std::vector<Generated> whole = generated(loaded, kTexts, greedy(12));
  std::vector<Tokens> told(kTexts.size());
  const auto results = generated(loaded, kTexts, greedy(12), [&](std::size_t sample, data::Token token) {
    told[sample].push_back(token);
    return sample != 1 || told[sample].size() < 3;
  });
  for (std::size_t i = 0; i < kTexts.size(); ++i) {
    EXPECT_EQ(results[i].tokens, told[i]);
    EXPECT_EQ(results[i].finish, i == 1 ? Finish::stopped : Finish::length);
    EXPECT_EQ(told[i],
              i == 1 ? Tokens(whole[i].tokens.begin(), whole[i].tokens.begin() + 3) : whole[i].tokens);
  }
}

TEST(Generate, StaysWithinTheContext) {
  const Loaded loaded = make(kGpt2Config);
  const std::vector<Generated> results = generated(loaded, {Tokens(60, 7), Tokens(63, 7)}, greedy(40));
  EXPECT_EQ(results[0].tokens.size(), 4u);
  EXPECT_EQ(results[1].tokens.size(), 1u);
  EXPECT_EQ(results[0].finish, Finish::length);
}

TEST(Generate, RefusesInvalidInput) {
  const Loaded loaded = make(kGpt2Config);
  EXPECT_THROW(generated(loaded, {Tokens{}}, greedy(4)), UserError);
  EXPECT_THROW(generated(loaded, {Tokens(64, 7)}, greedy(4)), UserError);
  EXPECT_THROW(generated(loaded, {Tokens{89}}, greedy(4)), UserError);
  EXPECT_THROW(generated(loaded, {Tokens{7}}, greedy(0)), UserError);
  const auto with = [&](SamplingOptions sampling) {
    GenerateOptions options = sampled(2);
    options.sampling = sampling;
    return generated(loaded, {Tokens{7}}, options);
  };
  EXPECT_THROW(with({.temperature = 0}), UserError);
  EXPECT_THROW(with({.top_k = -1}), UserError);
  EXPECT_THROW(with({.top_p = 0}), UserError);
  EXPECT_THROW(with({.min_p = 1.5}), UserError);
  EXPECT_THROW(with({.repetition_penalty = 0}), UserError);
  EXPECT_TRUE(generated(loaded, {}, greedy(4)).empty());
}

TEST(Generate, HalfPrecisionStaysCloseToTheWholeSequence) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const Loaded loaded = make(kLlamaConfig, dtype);
    const std::vector<Generated> results = generated(loaded, kTexts, greedy(20));
    for (std::size_t i = 0; i < kTexts.size(); ++i) {
      Tokens text = kTexts[i];
      for (const data::Token token : results[i].tokens) {
        const at::Tensor logits = logits_after(loaded, text).to(at::kFloat);
        EXPECT_GE(logits[token].item<float>(), logits.max().item<float>() - 0.3F);
        text.push_back(token);
      }
    }
  }
}

}  // namespace
}  // namespace dpo::model
