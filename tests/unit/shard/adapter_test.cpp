#include "shard/adapter.h"

#include <algorithm>

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn_like.h>
#include <gtest/gtest.h>

#include "made_model.h"
#include "model/spec/adapter.h"
#include "shard/adapter_store.h"
#include "shard/sharded_store.h"

namespace dpo::shard {
namespace {

// A model with an adapter over it.
struct Adapted {
  LocalModel base, local;
};

model::Model with_adapter(const model::Model& model, const model::AdapterSettings& settings) {
  return model::make_model(model.config, model::adapter_table(model.table, settings));
}

Adapted make_adapted(const std::string& family, const model::AdapterSettings& settings, bool random) {
  const MadeModel made = make_model(family);
  const model::Model model = with_adapter(made.model, settings);
  const LocalModel base = frozen_base(made.model.config, made.weights, model.trained, {});
  model::Weights weights = new_adapter(model.trained, base, at::kFloat, 3, {});
  if (random)
    for (model::BlockWeights& block : weights.blocks)
      for (model::NamedTensor& named : block.tensors)
        if (named.name.ends_with("lora_B.weight")) named.tensor.copy_(at::randn_like(named.tensor) * 0.1);
  return {base, {model, base, weights, {}}};
}

struct Result {
  at::Tensor log_probs;
  model::Weights gradients;
};

Result result_of(const LocalModel& local, model::Store& store, const model::PassOptions& options) {
  Result result{{}, zeros_like(local.model().trained, local.weights(), at::kFloat, {})};
  model::ResidentGradients gradients(result.gradients);
  const model::Batch batch = model::make_batch(make_forest(), local.model().config.shape, at::kCPU);
  model::SavedActivations saved;
  result.log_probs = model::forward(local.model(), store, batch, options, saved).log_probs;
  model::backward(local.model(), store, batch, options, saved, at::ones_like(result.log_probs), gradients);
  return result;
}

Result result_of(const LocalModel& local, const model::PassOptions& options = {}) {
  return result_of(local, local.store(), options);
}

TEST(Adapter, IsTheModelItselfAtFirst) {
  for (const char* family : {"gpt2", "llama", "mixtral"})
    for (const bool dora : {false, true}) {
      const Adapted adapted = make_adapted(family, {.dora = dora}, false);
      const at::Tensor own = result_of(adapted.base).log_probs, found = result_of(adapted.local).log_probs;
      EXPECT_TRUE(dora ? at::allclose(found, own, 1e-5, 1e-5) : at::equal(found, own)) << family;
    }
}

// Matrices with an adapter are computed with it even if the base has them joined.
TEST(Adapter, OverAModelWithJoinedMatricesIsTheSame) {
  const Adapted adapted = make_adapted("llama", {.r = 3, .targets = {"k_proj", "up_proj"}}, true);
  const MadeModel made = make_model("llama");
  ASSERT_NE(made.weights.blocks[1].find("self_attn.qkv_proj.weight"), nullptr);
  ASSERT_EQ(adapted.base.weights().blocks[1].find("self_attn.qkv_proj.weight"), nullptr);
  const LocalModel joined(adapted.local.model(), {made.model, made.weights, {}}, adapted.local.weights(), {});
  const Result expected = result_of(adapted.local), found = result_of(joined);
  EXPECT_TRUE(at::allclose(found.log_probs, expected.log_probs, 1e-5, 1e-5));
  EXPECT_FALSE(at::allclose(result_of(adapted.base).log_probs, expected.log_probs, 1e-3, 1e-3));
  for (std::size_t b = 0; b < found.gradients.blocks.size(); ++b)
    EXPECT_TRUE(at::allclose(found.gradients.blocks[b].flat, expected.gradients.blocks[b].flat, 1e-4, 1e-4));
}

// In a model that is W + s B A, the gradient of W determines those of A and B.
TEST(Adapter, GradientsFollowFromThoseOfTheMergedModel) {
  for (const char* family : {"gpt2", "llama", "mixtral"})
    for (const std::int64_t recomputed : {0, 1, 3}) {
      const Adapted adapted = make_adapted(family, {.r = 3, .alpha = 6}, true);
      MadeModel merged = make_model(family);
      for (std::size_t b = 0; b < merged.weights.blocks.size(); ++b) {
        const model::Lease lease(adapted.local.store(), b, std::nullopt);
        for (model::NamedTensor& named : merged.weights.blocks[b].tensors) {
          const std::string module = named.name.substr(0, named.name.rfind('.'));
          if (named.name.ends_with(".weight") && (*lease).find(module + ".lora_A.weight"))
            named.tensor.copy_(model::merged((*lease).matrix(module)));
        }
      }
      const Result all = result_of({merged.model, merged.weights, Mesh{}}, {.recomputed_layers = recomputed});
      const Result own = result_of(adapted.local, {.recomputed_layers = recomputed});
      EXPECT_TRUE(at::allclose(own.log_probs, all.log_probs, 1e-4, 1e-4)) << family;
      for (std::size_t b = 0; b < own.gradients.blocks.size(); ++b) {
        const model::BlockWeights& found = own.gradients.blocks[b];
        const model::BlockWeights& weights = adapted.local.weights().blocks[b];
        for (std::size_t i = 0; i < found.tensors.size(); i += 2) {
          const std::string& name = found.tensors[i].name;
          const std::string module = name.substr(0, name.size() - std::string(".lora_A.weight").size());
          const model::NamedTensor& whole = *std::ranges::find(all.gradients.blocks[b].tensors,
                                                               module + ".weight", &model::NamedTensor::name);
          const at::Tensor of_w = whole.transposed ? whole.tensor.t() : whole.tensor;
          const at::Tensor a = weights.tensors[i].tensor, up = weights.tensors[i + 1].tensor;
          EXPECT_TRUE(at::allclose(found.tensors[i].tensor, 2 * up.t().mm(of_w), 1e-3, 1e-3)) << name;
          EXPECT_TRUE(at::allclose(found.tensors[i + 1].tensor, 2 * of_w.mm(a.t()), 1e-3, 1e-3)) << name;
        }
      }
    }
}

TEST(Adapter, TrainsWholeModulesBesides) {
  const Adapted adapted = make_adapted(
      "llama", {.targets = {"q_proj"}, .modules_to_save = {"lm_head", "input_layernorm"}}, false);
  const Result all = result_of(adapted.base), own = result_of(adapted.local);
  EXPECT_TRUE(at::equal(own.log_probs, all.log_probs));
  EXPECT_TRUE(at::equal(own.gradients.blocks.back()("lm_head.weight"),
                        all.gradients.blocks.back()("lm_head.weight")));
  EXPECT_TRUE(at::equal(own.gradients.blocks[1]("input_layernorm.weight"),
                        all.gradients.blocks[1]("input_layernorm.weight")));
  EXPECT_EQ(own.gradients.blocks.front().tensors.size(), 0u);
}

// Tensors below the first adapter have no gradients. Those above have the same ones.
TEST(Adapter, OfTheLastLayerAloneHasTheSameGradients) {
  const Adapted all = make_adapted("llama", {.targets = {"q_proj"}}, false);
  const Adapted last = make_adapted("llama", {.targets = {"model.layers.2.self_attn.q_proj"}}, false);
  for (const std::int64_t recomputed : {0, 1, 3}) {
    const Result expected = result_of(all.local, {.recomputed_layers = recomputed});
    const Result found = result_of(last.local, {.recomputed_layers = recomputed});
    EXPECT_TRUE(at::equal(found.log_probs, expected.log_probs));
    EXPECT_TRUE(at::equal(found.gradients.blocks[3]("self_attn.q_proj.lora_B.weight"),
                          expected.gradients.blocks[3]("self_attn.q_proj.lora_B.weight")));
    EXPECT_TRUE(found.gradients.blocks[1].tensors.empty());
  }
}

TEST(Adapter, RecomputesWithTheSameDropout) {
  const Adapted adapted = make_adapted("llama", {}, true);
  const Result kept = result_of(adapted.local, {.dropout = {0.5, 11}});
  const Result again = result_of(adapted.local, {.recomputed_layers = 3, .dropout = {0.5, 11}});
  const Result other = result_of(adapted.local, {.dropout = {0.5, 12}});
  EXPECT_TRUE(at::equal(again.log_probs, kept.log_probs));
  for (std::size_t b = 0; b < kept.gradients.blocks.size(); ++b)
    EXPECT_TRUE(at::equal(again.gradients.blocks[b].flat, kept.gradients.blocks[b].flat)) << b;
  EXPECT_FALSE(at::equal(other.log_probs, kept.log_probs));
}

// Both tables may be sharded. The reference uses the model's store between the policy's passes.
TEST(Adapter, ComputesTheSameOverShardedStores) {
  const Adapted adapted = make_adapted("llama", {.dora = true}, true);
  ShardedStore base(adapted.base.model().table, adapted.base.weights(), {});
  AdapterStore both(
      base, std::make_unique<ShardedStore>(adapted.local.model().trained, adapted.local.weights(), Mesh{}));
  const Result expected = result_of(adapted.local);
  for (int i = 0; i < 2; ++i) {
    const Result found = result_of(adapted.local, both, {});
    EXPECT_TRUE(at::equal(found.log_probs, expected.log_probs));
    for (std::size_t b = 0; b < found.gradients.blocks.size(); ++b)
      EXPECT_TRUE(at::equal(found.gradients.blocks[b].flat, expected.gradients.blocks[b].flat)) << b;
    const model::Batch batch = model::make_batch(make_forest(), adapted.base.model().config.shape, at::kCPU);
    EXPECT_TRUE(at::equal(model::forward(adapted.base.model(), base, batch, {}).log_probs,
                          result_of(adapted.base).log_probs));
  }
  EXPECT_LE(base.most_fetched(), 2u);
}

}  // namespace
}  // namespace dpo::shard
