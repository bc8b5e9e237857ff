// How long gathered blocks stay (fsdp_reshard): bytes moved, memory, and the plan's choice.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "config/compose.h"
#include "plan/output.h"
#include "test_plans.h"

namespace dpo::plan {
namespace {

// Live DPO of an 8B on 8 GPUs.
std::string live_dpo(const std::string& rest) {
  return "model=blank_model model.name_or_path=meta-llama/Llama-3.1-8B loss=dpo loss.beta=0.1 "
         "reference=live trainer=FSDPTrainer model.fsdp_policy_mp=bfloat16 batch_size=16 --gpus 8 --device "
         "h200 " +
         rest;
}

// Returns the bytes, in GB, of what the shard ranks gather and reduce together in an update.
double gigabytes_per_update(const std::string& line) {
  const Inputs in = inputs_of(line);
  const Plan plan = make_plan(in);
  const double ranks = static_cast<double>(plan.mesh.shard);
  return static_cast<double>(in.run.gradient_accumulation_steps) * plan.timing.microbatch.communication *
         in.machine.device.link / ((ranks - 1) / ranks) / 1e9;
}

double part_bytes(const Plan& plan, const std::string& part) {
  for (const MemoryPart& p : plan.memory.parts)
    if (p.name == part) return p.bytes;
  ADD_FAILURE() << "there is no part " << part;
  return 0;
}

// Gathers of 16 GB by reference, forward and backward pass, and 32 GB of float32 gradients.
TEST(Reshard, LiveDpoMoves48InsteadOf80GigabytesPerUpdate) {
  EXPECT_NEAR(gigabytes_per_update(live_dpo("fsdp_reshard=pass")), 80, 0.5);
  EXPECT_NEAR(gigabytes_per_update(live_dpo("fsdp_reshard=update")), 64, 0.5);
  EXPECT_NEAR(gigabytes_per_update(live_dpo("fsdp_reshard=never")), 48, 0.5);
  EXPECT_NEAR(gigabytes_per_update(live_dpo("")), 48, 0.5);
}

// Microbatches of an update share what it gathers.
TEST(Reshard, SavesMoreWithSeveralMicrobatches) {
  const std::string two = "gradient_accumulation_steps=2 ";
  EXPECT_NEAR(gigabytes_per_update(live_dpo(two + "fsdp_reshard=pass")), 160.6, 1);
  EXPECT_NEAR(gigabytes_per_update(live_dpo(two + "fsdp_reshard=update")), 112.4, 1);
  EXPECT_NEAR(gigabytes_per_update(live_dpo(two + "fsdp_reshard=never")), 80.3, 1);
}

// The frozen model under LoRA is never gathered again, in any number of bits.
TEST(Reshard, AnAdaptersBaseIsGatheredOncePerRun) {
  for (const std::string base : {"", "adapter.base_dtype=nf4 "}) {
    const auto moved = [&](const std::string& reshard) {
      return gigabytes_per_update(live_dpo("adapter=lora " + base + "fsdp_reshard=" + reshard));
    };
    const double of_adapter = moved("never"), of_base = moved("update") - of_adapter;
    EXPECT_GT(of_base, base.empty() ? 15 : 4);
    EXPECT_LT(of_adapter, 0.5);
    EXPECT_NEAR(moved("pass"), 3 * of_base + of_adapter, 0.01);
    EXPECT_EQ(plan_of(live_dpo("adapter=lora " + base)).resolved.fsdp_reshard, config::Reshard::never);
  }
}

TEST(Reshard, KeptBlocksTakeMemory) {
  const Plan pass = plan_of(live_dpo("fsdp_reshard=pass")), update = plan_of(live_dpo("fsdp_reshard=update")),
             never = plan_of(live_dpo("fsdp_reshard=never"));
  constexpr double kWeights = 8'030'261'248;
  // The head's and the embedding's block are the largest: 128,256 * 4096 = 525,336,576 parameters. The peak
  // is in the embedding's backward pass: its gradient in bfloat16 and in float32.
  const double gradients = 6 * 525'336'576.0;
  const auto gathered = [](const Plan& plan) { return part_bytes(plan, "gathered blocks"); };
  EXPECT_NEAR(gathered(update), 2 * kWeights + gradients, 1e6);
  EXPECT_NEAR(gathered(never), 4 * kWeights + gradients, 1e6);
  EXPECT_NEAR(gathered(pass), 2 * 525'336'576.0 + gradients, 1e6);
  // 4 bits and their scales, and the adapter's own tensors.
  const Plan nf4 = plan_of(live_dpo("adapter=lora adapter.base_dtype=nf4 fsdp_reshard=never"));
  EXPECT_NEAR(gathered(nf4), part_bytes(nf4, "parameters") * 8, 0.05 * gathered(nf4));
}

// Smaller GPUs keep less. Each choice leaves the room that plans may be wrong by.
TEST(Reshard, ThePlanChoosesTheFastestThatFits) {
  using config::Reshard;
  const auto planned = [](double gib, const std::string& rest) {
    Inputs in = inputs_of(live_dpo(rest));
    in.machine.device.memory = gib * (1 << 30);
    return make_plan(in);
  };
  const auto needed = [&](const char* reshard) {
    return planned(1000, fmt::format("fsdp_reshard={}", reshard)).memory.total() / (1 << 30) / 0.97 / 0.97;
  };
  EXPECT_EQ(planned(needed("never") + 0.1, "").resolved.fsdp_reshard, Reshard::never);
  EXPECT_EQ(planned(needed("never") - 0.1, "").resolved.fsdp_reshard, Reshard::update);
  EXPECT_EQ(planned(needed("update") - 0.1, "").resolved.fsdp_reshard, Reshard::pass);
  EXPECT_LT(planned(needed("never") + 0.1, "").timing.update,
            planned(1000, "fsdp_reshard=update").timing.update);
}

TEST(Reshard, IsASettingThatSavesMemory) {
  Inputs in = inputs_of(live_dpo("fsdp_reshard=never"));
  in.machine.device.memory = plan_of(live_dpo("fsdp_reshard=pass")).memory.total() / 0.97 + 1e9;
  const Plan plan = make_plan(in);
  EXPECT_FALSE(plan.fits());
  std::vector<std::string> offered;
  for (const Remedy& remedy : plan.find("memory")->remedies) offered.push_back(remedy.overrides.front());
  EXPECT_NE(std::ranges::find(offered, "fsdp_reshard=pass"), offered.end());
}

TEST(Reshard, IsPartOfTheText) {
  const auto text = [](const std::string& line) {
    const Inputs in = inputs_of(line);
    return to_text(make_plan(in), in, /*colours=*/false);
  };
  EXPECT_NE(text(live_dpo("")).find("fsdp_reshard=never"), std::string::npos);
  EXPECT_EQ(text(live_dpo("fsdp_reshard=pass")).find("fsdp_reshard"), std::string::npos);
  EXPECT_EQ(text("model=pythia28 trainer=BasicTrainer fsdp_reshard=never").find("fsdp_reshard"),
            std::string::npos);
}

// A sharded run needs fewer tokens to hide its communication if it gathers less.
TEST(Reshard, LowersTheTokensThatHideCommunication) {
  const auto tokens = [](const std::string& rest) {
    return plan_of(live_dpo(rest)).timing.threshold.scale_well;
  };
  EXPECT_NEAR(tokens("fsdp_reshard=never") / tokens("fsdp_reshard=pass"), 2.0 / 3, 1e-6);
  EXPECT_EQ(tokens("adapter=lora fsdp_reshard=never"), 0);
  EXPECT_GT(tokens("adapter=lora fsdp_reshard=pass"), 0);
}

}  // namespace
}  // namespace dpo::plan
