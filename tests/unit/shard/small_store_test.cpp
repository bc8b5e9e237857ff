#include "shard/small_store.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/ones_like.h>
#include <gtest/gtest.h>

#include "made_model.h"
#include "model/small_block.h"
#include "model/tables/adapter.h"
#include "shard/adapter.h"

namespace dpo::shard {
namespace {

using ops::SmallDtype;

model::Weights to_small(const MadeModel& made, SmallDtype dtype) {
  model::Weights small;
  for (std::size_t i = 0; i < made.weights.blocks.size(); ++i)
    small.blocks.push_back(model::to_small(made.weights.blocks[i], made.model.table.blocks[i], dtype));
  return small;
}

// The values of weights in few bits, as weights like any other.
model::Weights plain_of(const MadeModel& made, const model::Weights& small) {
  model::Weights plain = model::make_weights(made.model.table, at::kFloat, at::kCPU);
  for (std::size_t i = 0; i < plain.blocks.size(); ++i)
    if (small.blocks[i].small)
      model::from_small(small.blocks[i], plain.blocks[i].flat);
    else
      plain.blocks[i].flat.copy_(small.blocks[i].flat);
  return plain;
}

struct Passed {
  at::Tensor log_probs;
  model::Weights gradients;
};

Passed passed_by(const LocalModel& local, bool recompute) {
  Passed result{{}, zeros_like(local.model().trained, local.weights(), at::kFloat, {})};
  model::ResidentGradients gradients(result.gradients);
  pass(local.model(), local.store(), gradients, make_forest(), recompute, result.log_probs);
  return result;
}

TEST(SmallStore, HasMatricesOfLayersInFewBits) {
  for (const char* family : {"gpt2", "llama", "mixtral"}) {
    const MadeModel made = make_model(family);
    const model::Weights small = to_small(made, SmallDtype::int8), plain = plain_of(made, small);
    for (std::size_t b = 0; b < plain.blocks.size(); ++b) {
      EXPECT_EQ(small.blocks[b].small != nullptr, made.model.table.blocks[b].kind == model::BlockKind::layer);
      for (std::size_t t = 0; t < plain.blocks[b].tensors.size(); ++t) {
        const model::TensorInfo& info = made.model.table.blocks[b].tensors[t];
        EXPECT_NE(at::equal(plain.blocks[b].tensors[t].tensor, made.weights.blocks[b].tensors[t].tensor),
                  model::may_be_small(made.model.table.blocks[b], info))
            << info.name;
      }
    }
  }
}

class SmallStoreTest : public testing::TestWithParam<std::tuple<const char*, SmallDtype, bool>> {};

// To the bit: values, gradients of the adapter, and the base, which is the reference.
TEST_P(SmallStoreTest, ComputesAsOverTheSameValues) {
  const auto [family, dtype, recompute] = GetParam();
  const MadeModel made = make_model(family);
  const model::Weights small = to_small(made, dtype);
  const model::AdapterSettings settings{.dora = family == std::string("llama")};
  const model::Model model =
      model::make_model(made.model.config, model::adapter_table(made.model.table, settings));
  const LocalModel base = frozen_base(made.model.config, small, model.trained, {});
  const LocalModel plain = frozen_base(made.model.config, plain_of(made, small), model.trained, {});
  ASSERT_NE(dynamic_cast<const SmallStore*>(&base.store()), nullptr);
  const LocalModel found(model, base, new_adapter(model.trained, base, at::kFloat, 3, {}), {});
  const LocalModel expected(model, plain, new_adapter(model.trained, plain, at::kFloat, 3, {}), {});
  const Passed of_plain = passed_by(expected, recompute);
  const model::Batch batch = model::make_batch(make_forest(), model.config.shape, at::kCPU);
  for (int i = 0; i < 2; ++i) {
    const Passed result = passed_by(found, recompute);
    EXPECT_TRUE(at::equal(result.log_probs, of_plain.log_probs));
    for (std::size_t b = 0; b < result.gradients.blocks.size(); ++b)
      EXPECT_TRUE(at::equal(result.gradients.blocks[b].flat, of_plain.gradients.blocks[b].flat)) << b;
    EXPECT_TRUE(
        at::equal(model::forward(base.model(), base.store(), batch, {}).log_probs, of_plain.log_probs));
  }
  EXPECT_EQ(dynamic_cast<const SmallStore&>(base.store()).most_fetched(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Families, SmallStoreTest,
                         testing::Combine(testing::Values("gpt2", "llama", "mixtral"),
                                          testing::Values(SmallDtype::nf4, SmallDtype::int8, SmallDtype::fp8),
                                          testing::Bool()));

TEST(SmallStore, MovesToADevice) {
  const MadeModel made = make_model("llama");
  const model::Weights small = to_small(made, SmallDtype::nf4);
  const std::vector<at::Device> devices(small.blocks.size(), at::kCPU);
  const model::Weights moved = to_devices(made.model.table, small, devices);
  const model::Weights expected = plain_of(made, small), found = plain_of(made, moved);
  for (std::size_t b = 0; b < found.blocks.size(); ++b)
    EXPECT_TRUE(at::equal(found.blocks[b].flat, expected.blocks[b].flat));
}

}  // namespace
}  // namespace dpo::shard
