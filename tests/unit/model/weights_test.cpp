#include "model/weights.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

namespace dpo::model {
namespace {

// Returns a block with three experts between two norms. Each expert's 10 numbers do not fill the 64 to which
// tensors are aligned.
Block block_with_experts(std::int64_t width) {
  Block block{BlockKind::layer, "layers.0.", {{"layers.0.first", {3}, std::nullopt, false}}};
  for (const char* name : {"layers.0.a", "layers.0.b", "layers.0.c"}) {
    block.tensors.push_back({name, {width, 5}, 0, true});
    block.tensors.back().stack = "experts";
  }
  block.tensors.push_back({"layers.0.last", {3}, std::nullopt, false});
  return block;
}

TEST(BlockWeights, LayersSeeAStackAsOneTensor) {
  for (const std::int64_t width : {2, 64})
    for (const Layout layout : {Layout{0, 1, 0, 1}, Layout{1, 2, 0, 1}}) {
      const Block block = block_with_experts(width);
      const BlockWeights weights =
          block_views(at::arange(local_block(block, layout).size, at::kFloat), block, layout);
      ASSERT_EQ(weights.tensors.size(), 5u);
      ASSERT_EQ(weights.operands.size(), 3u);
      const at::Tensor& stack = weights("experts");
      EXPECT_EQ(stack.sizes().vec(), (std::vector<std::int64_t>{3, width / layout.tensor_ranks, 5}));
      for (std::int64_t i = 0; i < 3; ++i) {
        const at::Tensor& one = weights.tensors[static_cast<std::size_t>(i) + 1].tensor;
        EXPECT_TRUE(stack[i].equal(one)) << i;
        EXPECT_EQ(stack[i].data_ptr(), one.data_ptr()) << i;
      }
      EXPECT_EQ(weights.find("a"), nullptr);
      EXPECT_TRUE(weights("last").equal(weights.tensors.back().tensor));
    }
}

// Returns a block with matrices of 64 and 128 rows, which fill the alignment of tensors, and their biases.
Block block_with_joined(std::int64_t width) {
  Block block{BlockKind::layer, "layers.0.", {}};
  for (const char* part : {".weight", ".bias"})
    for (const auto& [name, rows] : {std::pair{"layers.0.q", width}, {"layers.0.k", 2 * width}}) {
      const std::vector<std::int64_t> matrix = {rows, 8}, vector = {rows};
      block.tensors.push_back({name + std::string(part), part == std::string(".bias") ? vector : matrix, 0});
      block.tensors.back().stack = "both" + std::string(part);
      block.tensors.back().joined = true;
    }
  return block;
}

TEST(BlockWeights, LayersSeeJoinedTensorsAsOneMatrix) {
  const Block block = block_with_joined(128);
  for (const Layout layout : {Layout{0, 1, 0, 1}, Layout{1, 2, 0, 1}}) {
    const BlockWeights weights =
        block_views(at::arange(local_block(block, layout).size, at::kFloat), block, layout);
    ASSERT_EQ(weights.tensors.size(), 4u);
    ASSERT_EQ(weights.operands.size(), 2u);
    const Matrix both = weights.matrix("both");
    const std::int64_t rows = 128 / layout.tensor_ranks;
    EXPECT_EQ(both.weight.sizes().vec(), (std::vector<std::int64_t>{3 * rows, 8}));
    EXPECT_TRUE(both.weight.narrow(0, 0, rows).equal(weights.tensors[0].tensor));
    EXPECT_TRUE(both.weight.narrow(0, rows, 2 * rows).equal(weights.tensors[1].tensor));
    EXPECT_TRUE(weights.bias("both").narrow(0, rows, 2 * rows).equal(weights.tensors[3].tensor));
  }
}

// There is padding between the biases, so the matrices are not joined either.
TEST(BlockWeights, LayersSeeTensorsApartIfPaddingIsBetweenThem) {
  const Block block = block_with_joined(32);
  const BlockWeights weights = block_views(at::arange(local_block(block, {}).size, at::kFloat), block, {});
  EXPECT_EQ(weights.operands.size(), 4u);
  EXPECT_EQ(weights.find("both.weight"), nullptr);
  EXPECT_EQ(weights("k.weight").size(0), 64);
}

}  // namespace
}  // namespace dpo::model
