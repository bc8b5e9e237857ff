// Tests offload=reference, which keeps the reference's weights in host memory.
#include <gtest/gtest.h>

#include "plan/memory.h"
#include "test_plans.h"

namespace dpo::plan {
namespace {

const std::string kLine =
    "model=pythia28 loss=dpo loss.beta=0.1 batch_size=64 optimizer=AdamW model.fsdp_policy_mp=bfloat16 "
    "--device h200 reference=";

double bytes_of(const Plan& plan, const std::string& name) {
  for (const MemoryPart& part : plan.memory.parts)
    if (part.name == name) return part.bytes;
  return 0;
}

TEST(OffloadedReference, LeavesTwoBlocksOnTheGpu) {
  const Plan kept = plan_of(kLine + "live"), offloaded = plan_of(kLine + "live offload=reference");
  EXPECT_NEAR(bytes_of(kept, "reference"), 2 * 2'775'208'960.0, 1e5);
  // The device holds the largest two adjacent blocks: the embedding and the first layer, or the last layer
  // and the head.
  EXPECT_NEAR(bytes_of(offloaded, "reference"), 2 * (50'304 * 2560.0 + 12 * 2560 * 2560.0), 5e5);
  EXPECT_EQ(bytes_of(offloaded, "optimizer"), bytes_of(kept, "optimizer"));
  EXPECT_EQ(verdict_of(offloaded, "offload"), Verdict::ok);
}

// Two microbatches copy 2 * 5.55 GB. The GPU's computation hides a part of the copies.
TEST(OffloadedReference, IsCopiedInEveryMicrobatch) {
  const auto step = [](const std::string& more) { return plan_of(kLine + "live " + more).timing.update; };
  const double link = load_device("h200").host_link;
  EXPECT_LT(step("offload=reference") - step("offload=none"), 5.55e9 / link);
  const double one_each = step("gradient_accumulation_steps=64 offload=reference");
  EXPECT_GT(one_each, 64 * 5.55e9 / link);
}

TEST(OffloadedReference, NeedsOneThatIsWholeAndOnTheGpu) {
  EXPECT_EQ(verdict_of(plan_of(kLine + "cached offload=reference"), "offload"), Verdict::hint);
  EXPECT_EQ(verdict_of(plan_of(kLine + "live offload=reference adapter=lora"), "offload"), Verdict::hint);
  EXPECT_EQ(verdict_of(plan_of(kLine + "live offload=reference trainer=FSDPTrainer --gpus 2"), "offload"),
            Verdict::error);
}

// KTO's scores cannot be cached.
TEST(OffloadedReference, OfShardsIsAdvisedAgainst) {
  const auto remedies = [](const std::string& line) {
    std::vector<std::string> words;
    const Plan plan =
        plan_of("model=pythia28 reference=live trainer=FSDPTrainer batch_size=16 --gpus 2 " + line);
    for (const Remedy& remedy : plan.find("offload")->remedies) words.push_back(remedy.overrides.at(0));
    return words;
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(remedies("loss=dpo loss.beta=0.1 offload=both"),
            (Words{"reference=cached", "offload=optimizer"}));
  EXPECT_EQ(remedies("loss=kto loss.beta=0.1 offload=reference"), (Words{"offload=none"}));
}

}  // namespace
}  // namespace dpo::plan
