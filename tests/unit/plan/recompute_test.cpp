#include "model/spec/recompute.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "test_plans.h"

namespace dpo::plan {
namespace {

// Recomputed layers save only their inputs. While a layer is recomputed, it needs the memory of a whole
// layer.
TEST(Recomputation, FreesMemoryByLayer) {
  const std::string line = "model=pythia28 batch_size=32 --device h200 activation_checkpointing=";
  const auto activations = [&](const std::string& value) {
    for (const MemoryPart& part : plan_of(line + value).memory.parts)
      if (part.name == "activations") return part.bytes;
    return 0.0;
  };
  const double none = activations("false"), one = activations("1"), two = activations("2");
  EXPECT_GT(none, one);
  EXPECT_NEAR(none - one, one - two, 1);
  EXPECT_GT(activations("true"), activations("31"));  // of 32: both keep one, and 31 inputs or 32
  EXPECT_EQ(activations("true"), activations("32"));
  EXPECT_EQ(activations("true"), activations("99"));
}

TEST(Recomputation, IsOfAsFewLayersAsNecessary) {
  const std::string line = "model=pythia28 batch_size=256 model.fsdp_policy_mp=bfloat16 --device a100-80gb ";
  ASSERT_FALSE(plan_of(line).fits());
  const Plan all = plan_of(line + "activation_checkpointing=true");
  const Plan some = plan_of(line + "activation_checkpointing=auto");
  ASSERT_TRUE(all.fits() && some.fits());
  const std::int64_t count = some.resolved.activation_checkpointing.count;
  EXPECT_GT(count, 0);
  EXPECT_LT(count, 31);
  EXPECT_LT(some.timing.update, all.timing.update);
  EXPECT_LE(some.memory.total(), 0.97 * some.memory.available);
  const Plan fewer = plan_of(fmt::format("{} activation_checkpointing={}", line, count - 1));
  EXPECT_GT(fewer.memory.total(), 0.97 * fewer.memory.available);
  const Plan enough = plan_of("model=pythia28 batch_size=4 --device h200 activation_checkpointing=auto");
  EXPECT_EQ(enough.resolved.activation_checkpointing.count, 0);
}

// With layers in order over four GPUs, each GPU needs the memory of one layer, whether it is kept or
// recomputed.
TEST(Recomputation, OfLayersSpreadOverGpus) {
  const std::string line =
      "model=pythia28 loss=dpo loss.beta=0.1 batch_size=512 --device a100-40gb --gpus 4 "
      "activation_checkpointing=";
  const Plan all = plan_of(line + "true"), most = plan_of(line + "auto");
  EXPECT_TRUE(all.fits());
  EXPECT_TRUE(most.fits()) << most.memory.total();
  EXPECT_LE(most.memory.total(), all.memory.total());
}

// Cached scores free more memory than recomputed layers, and cost less.
TEST(Recomputation, ComesAfterACachedReference) {
  const Plan plan = plan_of(
      "model=pythia28 loss=dpo loss.beta=0.1 batch_size=128 gradient_accumulation_steps=4 "
      "activation_checkpointing=auto --device a100-80gb");
  EXPECT_EQ(plan.reference, ReferenceMode::cached);
  EXPECT_EQ(plan.resolved.activation_checkpointing.count, 0);
}

TEST(Recomputation, CostsTimeByLayer) {
  const std::string line = "model=pythia28 batch_size=32 --device h200 activation_checkpointing=";
  const auto seconds = [&](const std::string& value) { return plan_of(line + value).timing.update; };
  EXPECT_NEAR(seconds("16") - seconds("false"), seconds("true") - seconds("16"), 1e-6 * seconds("true"));
}

TEST(Recomputation, SpreadsKeptLayersAndKeepsTheLast) {
  for (std::int64_t layers = 1; layers <= 40; ++layers)
    for (std::int64_t count = 0; count <= layers + 1; ++count) {
      std::int64_t recomputed = 0;
      for (std::int64_t layer = 0; layer < layers; ++layer)
        recomputed += model::is_recomputed(layer, count, layers) ? 1 : 0;
      EXPECT_EQ(recomputed, std::min(count, layers));
      EXPECT_EQ(model::is_recomputed(layers - 1, count, layers), count >= layers);
    }
  // Half of 8: every other one.
  for (std::int64_t layer = 0; layer < 8; ++layer)
    EXPECT_EQ(model::is_recomputed(layer, 4, 8), layer % 2 == 0) << layer;
}

}  // namespace
}  // namespace dpo::plan
