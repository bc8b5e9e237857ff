// Tests passes with matmuls in 8-bit floats.
#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <gtest/gtest.h>

#include "model/init.h"
#include "model/pass.h"
#include "model/spec/adapter.h"

namespace dpo::model {
namespace {

// All sizes of the layers' matrices are multiples of 16.
std::string fp8_config_of(const std::string& family, const std::string& more = "") {
  if (family == "gpt2" || family == "gptj")
    return R"({"model_type": ")" + family + R"(", "n_embd": 64, "n_layer": 3, "n_head": 4, "rotary_dim": 8,
      "vocab_size": 97, "n_positions": 64, "initializer_range": 0.08})";
  return R"({"model_type": ")" + family + R"(", "hidden_size": 64, "intermediate_size": 96,
      "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 97,
      "max_position_embeddings": 64, "initializer_range": 0.08, "pad_token_id": null)" +
         more + "}";
}

std::vector<std::string> fp8_configs() {
  return {fp8_config_of("gpt2"),
          fp8_config_of("gptj"),
          fp8_config_of("llama"),
          fp8_config_of("qwen3"),
          fp8_config_of("gpt_neox", R"(, "use_parallel_residual": true)"),
          fp8_config_of("gemma2", R"(, "head_dim": 16, "sliding_window": 4)"),
          fp8_config_of("olmo2"),
          fp8_config_of("cohere")};
}

std::vector<data::Example> fp8_examples() {
  static const std::vector<data::Token> texts[] = {{5, 17, 3, 44, 21}, {8, 9, 33}, {60, 61, 7, 4, 2, 3},
                                                   {1, 2, 4, 5},       {30},       {12, 80, 81}};
  return {{.prompt = texts[0], .responses = {texts[1], texts[2]}},
          {.prompt = texts[3], .responses = {texts[4], texts[5]}}};
}

// A model with random weights, and one batch.
struct Fp8Model {
  Model model;
  Weights weights;
  Batch batch;

  explicit Fp8Model(const std::string& json, at::ScalarType type = at::kBFloat16)
      : model(make_model(parse_model_config(json, "test"))),
        weights(make_weights(model.table, type, at::kCPU)),
        batch(batch_of(fp8_examples())) {
    initialize(weights, model.table, model.config, 5);
  }

  Batch batch_of(const std::vector<data::Example>& examples) const {
    return make_batch(data::make_forest(examples), model.config.shape, at::kCPU);
  }

  at::Tensor scores(const PassOptions& options) const {
    return forward(model, weights, batch, options).log_probs;
  }
};

struct Fp8Gradients {
  at::Tensor scores;
  Weights sums;
};

Fp8Gradients gradients_of(const Fp8Model& m, const PassOptions& options) {
  Fp8Gradients result{{}, make_weights(m.model.trained, at::kFloat, at::kCPU)};
  ResidentGradients gradients(result.sums);
  ResidentStore store(m.weights);
  SavedActivations saved;
  result.scores = forward(m.model, store, m.batch, options, saved).log_probs;
  backward(m.model, store, m.batch, options, saved, at::ones_like(result.scores), gradients);
  return result;
}

double distance(const at::Tensor& one, const at::Tensor& other) {
  return ((one - other).to(at::kDouble).norm() / other.to(at::kDouble).norm()).item<double>();
}

TEST(Fp8Pass, ScoresAndGradientsAreNearThoseOfBfloat16) {
  for (const std::string& json : fp8_configs()) {
    const Fp8Model m(json);
    const Fp8Gradients exact = gradients_of(m, {}), found = gradients_of(m, {.fp8 = true});
    EXPECT_FALSE(found.scores.equal(exact.scores)) << json;
    EXPECT_LT(distance(found.scores, exact.scores), 0.05) << json;
    for (std::size_t b = 0; b < exact.sums.blocks.size(); ++b)
      EXPECT_LT(distance(found.sums.blocks[b].flat, exact.sums.blocks[b].flat), 0.25) << b << " " << json;
  }
}

// An untrained policy must equal its reference exactly: the pass that saves activations computes the same
// values as the other one, however often it is repeated.
TEST(Fp8Pass, PolicyAndReferenceAreTheSame) {
  for (const std::string& json : fp8_configs()) {
    const Fp8Model m(json);
    const Fp8Gradients policy = gradients_of(m, {.fp8 = true}), again = gradients_of(m, {.fp8 = true});
    EXPECT_TRUE(policy.scores.equal(m.scores({.fp8 = true}))) << json;
    EXPECT_TRUE(policy.scores.equal(again.scores));
    for (std::size_t b = 0; b < policy.sums.blocks.size(); ++b)
      EXPECT_TRUE(policy.sums.blocks[b].flat.equal(again.sums.blocks[b].flat)) << b;
  }
}

TEST(Fp8Pass, RecomputedLayersGiveTheSameBits) {
  for (const std::string& json : fp8_configs()) {
    const Fp8Model m(json);
    const Fp8Gradients kept = gradients_of(m, {.fp8 = true});
    const Fp8Gradients recomputed = gradients_of(m, {.recomputed_layers = 3, .fp8 = true});
    EXPECT_TRUE(kept.scores.equal(recomputed.scores));
    for (std::size_t b = 0; b < kept.sums.blocks.size(); ++b)
      EXPECT_TRUE(kept.sums.blocks[b].flat.equal(recomputed.sums.blocks[b].flat)) << b << " " << json;
  }
}

// Each token has its own scale, so the examples of a batch do not change each other's scores.
TEST(Fp8Pass, ScoresDoNotDependOnTheSplitOfABatch) {
  for (const std::string& json : fp8_configs()) {
    const Fp8Model m(json);
    std::vector<at::Tensor> parts;
    for (const data::Example& example : fp8_examples())
      parts.push_back(forward(m.model, m.weights, m.batch_of({example}), {.fp8 = true}).log_probs);
    EXPECT_LT(distance(at::cat(parts), m.scores({.fp8 = true})), 1e-6) << json;
  }
}

// The head and the embedding are not in 8 bits, so a model whose layers add nothing does not change.
TEST(Fp8Pass, OnlyLayersAreInFp8) {
  Fp8Model m(fp8_config_of("llama"));
  for (std::size_t b = 1; b + 1 < m.weights.blocks.size(); ++b)
    for (const NamedTensor& named : m.weights.blocks[b].tensors)
      if (named.name == "self_attn.o_proj.weight" || named.name == "mlp.down_proj.weight")
        named.tensor.zero_();
  EXPECT_TRUE(m.scores({.fp8 = true}).equal(m.scores({})));
}

// The matmuls of the frozen base are in 8 bits, those of LoRA are not. A new adapter changes nothing.
TEST(Fp8Pass, WorksUnderLora) {
  for (const std::string& family : {std::string("llama"), std::string("gpt2")})
    for (const double dropout : {0.0, 0.5}) {
      Fp8Model m(fp8_config_of(family));
      const at::Tensor reference = m.scores({.fp8 = true});
      m.model = make_model(m.model.config,
                           adapter_table(m.model.table, {.r = 4, .alpha = 8, .targets = {"all-linear"}}));
      Weights adapter = make_weights(m.model.trained, at::kBFloat16, at::kCPU);
      initialize(adapter, m.model.trained, m.model.config, 3);
      m.weights = with_adapter(m.weights, adapter);
      const Fp8Gradients policy = gradients_of(m, {.fp8 = true});
      EXPECT_TRUE(policy.scores.equal(reference));
      EXPECT_FALSE(policy.scores.equal(m.scores({})));
      const Fp8Gradients plain = gradients_of(m, {});
      const PassOptions dropping{.recomputed_layers = 3, .dropout = {dropout, 7}, .fp8 = true};
      EXPECT_TRUE(gradients_of(m, dropping).scores.equal(reference));  // b is zero
      for (std::size_t b = 1; b + 1 < policy.sums.blocks.size(); ++b)
        EXPECT_LT(distance(policy.sums.blocks[b].flat, plain.sums.blocks[b].flat), 0.25) << b;
    }
}

}  // namespace
}  // namespace dpo::model
