#include "model/weights.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

namespace dpo::model {
namespace {

// Three experts between two norms. Their 10 numbers each do not fill the 64 that a tensor is aligned to.
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

}  // namespace
}  // namespace dpo::model
