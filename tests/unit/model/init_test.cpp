#include "model/init.h"

#include <cmath>

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "model/spec/adapter.h"

namespace dpo::model {
namespace {

ModelConfig config(std::int64_t layers = 2, std::int64_t vocabulary = 1000) {
  ModelConfig c;
  c.shape.family = Family::gpt2;
  c.shape.layers = layers;
  c.shape.hidden = 64;
  c.shape.ffn = 256;
  c.shape.heads = c.shape.kv_heads = 4;
  c.shape.head_dim = 16;
  c.shape.vocabulary = vocabulary;
  c.shape.context = 32;
  c.shape.tied_embeddings = true;
  c.settings.initializer_range = 0.02;
  return c;
}

Weights made(const ModelConfig& c, std::uint64_t seed = 1, at::ScalarType dtype = at::kFloat) {
  const TensorTable table = tensor_table(c.shape);
  Weights weights = make_weights(table, dtype, at::kCPU);
  initialize(weights, table, c, seed);
  return weights;
}

double deviation(const at::Tensor& tensor) { return tensor.std().item<double>(); }

TEST(Initialize, FillsAsTheFamilyDoes) {
  const Weights weights = made(config());
  const BlockWeights& layer = weights.blocks[1];
  const double residual = 0.02 / std::sqrt(2.0 * 2);
  EXPECT_NEAR(deviation(weights.blocks[0]("transformer.wte.weight")), 0.02, 0.02 * 0.02);
  EXPECT_NEAR(deviation(layer("attn.c_attn.weight")), 0.02, 0.02 * 0.04);
  EXPECT_NEAR(deviation(layer("mlp.c_proj.weight")), residual, residual * 0.04);
  EXPECT_EQ(layer("ln_1.weight").min().item<float>(), 1);
  EXPECT_EQ(layer("ln_1.weight").max().item<float>(), 1);
  EXPECT_EQ(layer("mlp.c_fc.bias").abs().max().item<float>(), 0);
}

TEST(Initialize, DrawsNormalNumbers) {
  const at::Tensor drawn = made(config(1, 20'000)).blocks[0]("transformer.wte.weight") / 0.02;
  const auto share_below = [&](double bound) {
    return (drawn < bound).to(at::kDouble).mean().item<double>();
  };
  for (const double bound : {-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0})
    EXPECT_NEAR(share_below(bound), 0.5 * std::erfc(-bound / std::sqrt(2.0)), 0.002) << bound;
  // Neighbours come from one pair of draws, and must not be correlated.
  const at::Tensor flat = drawn.view({-1, 2});
  EXPECT_NEAR((flat.select(1, 0) * flat.select(1, 1)).mean().item<double>(), 0, 0.006);
}

// LoRA's A is drawn like nn.Linear's weight: uniform within 1 / sqrt(inputs). B is zero.
TEST(Initialize, DrawsAdaptersAsPeftDoes) {
  const ModelConfig c = config();
  const TensorTable adapter = adapter_table(tensor_table(c.shape), {.r = 64, .targets = {"c_fc"}});
  Weights weights = make_weights(adapter, at::kFloat, at::kCPU);
  initialize(weights, adapter, c, 1);
  const at::Tensor a = weights.blocks[1]("mlp.c_fc.lora_A.weight") * 8;  // 8 = sqrt(64 inputs)
  EXPECT_LE(a.abs().max().item<double>(), 1);
  EXPECT_NEAR(a.mean().item<double>(), 0, 0.03);
  EXPECT_NEAR(deviation(a), 1 / std::sqrt(3.0), 0.02);
  EXPECT_EQ(weights.blocks[1]("mlp.c_fc.lora_B.weight").abs().max().item<float>(), 0);
  EXPECT_FALSE(at::equal(a, weights.blocks[2]("mlp.c_fc.lora_A.weight") * 8));
}

TEST(Initialize, GivesTheSameWhateverTheDtypeAndTheOtherTensors) {
  const Weights all = made(config());
  const Weights half = made(config(), 1, at::kBFloat16);
  const Weights longer = made(config(2, 1501));
  for (std::size_t i = 0; i < all.blocks.size(); ++i)
    for (std::size_t j = 0; j < all.blocks[i].tensors.size(); ++j) {
      const NamedTensor& named = all.blocks[i].tensors[j];
      EXPECT_TRUE(at::equal(named.tensor.to(at::kBFloat16), half.blocks[i].tensors[j].tensor)) << named.name;
      const at::Tensor other = longer.blocks[i].tensors[j].tensor;
      EXPECT_TRUE(at::equal(named.tensor, other.narrow(0, 0, named.tensor.size(0)))) << named.name;
    }
}

TEST(Initialize, DependsOnSeedAndName) {
  const Weights a = made(config(), 1), b = made(config(), 2);
  const at::Tensor first = a.blocks[1]("attn.c_attn.weight");
  EXPECT_FALSE(at::equal(first, b.blocks[1]("attn.c_attn.weight")));
  EXPECT_FALSE(at::equal(first, a.blocks[2]("attn.c_attn.weight")));
}

// Every element that a rank holds must equal that of the whole model.
TEST(Initialize, GivesTheSameWhateverTheLayout) {
  ModelConfig c = config(1, 1001);
  c.shape.hidden = 60;  // so that runs also begin at odd elements
  c.shape.head_dim = 15;
  c.settings.padding_row = 7;
  const TensorTable table = tensor_table(c.shape);
  const Weights whole = made(c);
  EXPECT_EQ(whole.blocks[0]("transformer.wte.weight")[7].abs().max().item<float>(), 0);
  for (const std::int64_t tensor_ranks : {1, 4})
    for (const std::int64_t shard_ranks : {1, 3})
      for (std::int64_t rank = 0; rank < tensor_ranks * shard_ranks; ++rank) {
        const Layout layout{rank % tensor_ranks, tensor_ranks, rank / tensor_ranks, shard_ranks};
        Weights part = make_weights(table, at::kFloat, at::kCPU, layout);
        initialize(part, table, c, 1, layout);
        for (std::size_t i = 0; i < table.blocks.size(); ++i)
          for (const Piece& piece : pieces_of(table.blocks[i], layout))
            ASSERT_TRUE(at::equal(
                part.blocks[i].flat.narrow(0, piece.to, piece.count),
                whole.blocks[i].tensors[piece.tensor].tensor.view({-1}).narrow(0, piece.from, piece.count)))
                << table.blocks[i].tensors[piece.tensor].name << " of rank " << rank;
      }
}

// Checks the numbers themselves, so that a seed means the same in every version.
TEST(Initialize, KeepsItsNumbers) {
  const at::Tensor drawn = made(config(), 42).blocks[0]("transformer.wte.weight").flatten();
  const float expected[] = {0.03844703F, 0.02168213F, 0.01657715F, 0.04522007F};
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_NEAR(drawn[i].item<float>(), expected[i], 1e-8) << i;
}

}  // namespace
}  // namespace dpo::model
