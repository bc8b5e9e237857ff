#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/divisors.h"
#include "plan/output.h"
#include "test_plans.h"

namespace dpo::plan {
namespace {

TEST(FindFastest, MakesAPlanThatDidNotFitRun) {
  const std::string line = "model=llama7b loss=dpo loss.beta=0.1 batch_size=64 --gpus 2 --device a100-80gb ";
  EXPECT_FALSE(plan_of(line).fits());
  const auto fit = find_fastest(inputs_of(line));
  ASSERT_TRUE(fit);
  const Plan typed = plan_of(line + fmt::format("{}", fmt::join(fit->overrides, " ")));
  EXPECT_TRUE(typed.passes());
  EXPECT_EQ(typed.timing.update, fit->plan.timing.update);
}

TEST(FindFastest, SaysWhatItCosts) {
  const std::string line = "model.name_or_path=allenai/OLMo-2-1124-13B batch_size=4 --device rtx4090 ";
  const auto fit = find_fastest(inputs_of(line));
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->overrides.front(), "adapter=lora");
  EXPECT_EQ(fit->costs.find("LoRA: only a low-rank update"), 0u) << fit->costs;
  EXPECT_EQ(find_fastest(inputs_of("model=llama7b batch_size=4 --device h200"))->costs, "");
}

TEST(FindFastest, TriesEveryKeyWhereNothingElseFits) {
  for (const std::string& line :
       {std::string("model=llama7b loss=dpo loss.beta=0.1 batch_size=4 --gpus 2 --device rtx4090 "),
        std::string("model=pythia28 optimizer=AdamW batch_size=4 --device rtx4090 "),
        std::string("model=pythia28 loss=dpo loss.beta=0.1 reference=live batch_size=4 --device rtx4090 ")}) {
    const auto fit = find_fastest(inputs_of(line));
    ASSERT_TRUE(fit) << line;
    const Plan typed = plan_of(line + fmt::format("{}", fmt::join(fit->overrides, " ")));
    EXPECT_TRUE(typed.passes() && typed.fits()) << line << fmt::format("{}", fmt::join(fit->overrides, " "));
  }
}

TEST(FindFastest, IsNeverSlowerAndKeepsTheRules) {
  for (const std::string& line :
       {kReferenceSft, kReferenceDpo, std::string("model=pythia28 batch_size=64 --gpus 1"),
        std::string("model=gpt2-xl batch_size=16 --gpus 8 trainer=FSDPTrainer")}) {
    const Plan before = plan_of(line);
    const auto fit = find_fastest(inputs_of(line));
    ASSERT_TRUE(fit) << line;
    EXPECT_TRUE(fit->plan.passes());
    EXPECT_EQ(verdict_of(fit->plan, "batch-per-gpu"), Verdict::ok);
    EXPECT_TRUE(!before.passes() || fit->plan.timing.update <= 1.001 * before.timing.update) << line;
  }
}

TEST(FindFastest, ChangesNothingOfTheFastest) {
  const std::string line = "model=pythia28 batch_size=64 --gpus 1 --device h200 ";
  const auto fit = find_fastest(inputs_of(line));
  ASSERT_TRUE(fit);
  const std::string words = fmt::format("{}", fmt::join(fit->overrides, " "));
  EXPECT_EQ(words, "model.fsdp_policy_mp=bfloat16");
  EXPECT_TRUE(find_fastest(inputs_of(line + words))->overrides.empty());
}

TEST(FindFastest, UsesAMeshWhereItHelps) {
  // Over a slow network, the best mesh has shards within each machine and replicas across.
  const std::string line =
      "model=pythia28 loss=dpo loss.beta=0.1 model.fsdp_policy_mp=bfloat16 trainer=FSDPTrainer "
      "batch_size=512 "
      "mesh.shard=8 --gpus 4 --nodes 2 --device h100 ";
  const auto on_slow_network = [](const std::string& settings) {
    Inputs in = inputs_of(settings);
    in.machine.device.network = 5e9;
    return in;
  };
  const auto fit = find_fastest(on_slow_network(line));
  ASSERT_TRUE(fit);
  const std::string words = fmt::format("{}", fmt::join(fit->overrides, " "));
  EXPECT_NE(words.find("mesh.replica=2 mesh.shard=null"), std::string::npos) << words;
  EXPECT_EQ(make_plan(on_slow_network(line + words)).timing.update, fit->plan.timing.update);
}

TEST(FindFastest, ResetsNoKeyThatIsOne) {
  const auto words = [](const std::string& line) {
    return fmt::format("{}", fmt::join(find_fastest(inputs_of(line))->overrides, " "));
  };
  const std::string line = "model=gpt2-large model.fsdp_policy_mp=bfloat16 batch_size=64 --device h200 ";
  EXPECT_EQ(words(line + "trainer=FSDPTrainer mesh.replica=1 mesh.shard=2 mesh.tensor=1 --gpus 8"),
            "mesh.shard=null mesh.tensor=2");
  EXPECT_EQ(words(line + "adapter=lora adapter.base_dtype=nf4 trainer=FSDPTrainer fsdp_reshard=pass "
                         "mesh.replica=4 mesh.shard=1 "
                         "mesh.tensor=2 --gpus 4"),
            "mesh.tensor=null");
  // On one GPU, the trainer keeps its name.
  EXPECT_EQ(words(line + "trainer=FSDPTrainer mesh.shard=2 --gpus 1"), "mesh.shard=null");
}

TEST(FindFastest, KeepsTheRanksOfALauncher) {
  Inputs in = inputs_of("model=gpt2-large trainer=FSDPTrainer batch_size=8 --device cpu");
  in.machine.device.memory = 1e12;
  in.machine.launched = Launched{.ranks = 4, .on_machine = 4};
  const auto fit = find_fastest(in);
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->plan.mesh.ranks(), 4);  // one per GPU, not one process
}

// Shorter texts would leave room for a response, but their length is not the error.
TEST(FindFastest, LeavesErrorsThatAreNotAboutMemory) {
  const std::string line =
      "model=gpt2-large max_length=512 max_prompt_length=512 batch_size=8 --device h200 ";
  const auto fit = find_fastest(inputs_of(line));
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->costs, "");
  EXPECT_EQ(fit->errors(), (std::vector<std::string>{"prompt-room"}));
  const std::string text = to_text(*fit, plan_of(line));
  EXPECT_NE(text.find("Fastest that fits, once prompt-room is fixed: "), std::string::npos) << text;
  // Savings of memory are still found. Without any, the run is the same.
  const std::string large = "model=llama7b max_prompt_length=512 batch_size=4 --device rtx4090 ";
  const auto saving = find_fastest(inputs_of(large));
  ASSERT_TRUE(saving);
  EXPECT_EQ(saving->overrides, find_fastest(inputs_of(large + "max_prompt_length=256"))->overrides);
  // Errors in settings that the search changes are fixed as before.
  EXPECT_TRUE(find_fastest(inputs_of("model=gpt2-large batch_size=6 trainer=FSDPTrainer --gpus 4"))
                  ->errors()
                  .empty());
}

// One process cannot use two machines, and shards would split the matrices. The answer is replicas, and not
// LoRA.
TEST(FindFastest, KnowsReplicasOfWholeMatrices) {
  const auto fit = find_fastest(
      inputs_of("model=gpt2-large optimizer=Adafactor model.fsdp_policy_mp=bfloat16 batch_size=64 --gpus 4 "
                "--nodes 2"));
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->overrides, (std::vector<std::string>{"trainer=FSDPTrainer", "mesh.replica=8"}));
  EXPECT_EQ(fit->costs, "");
}

TEST(FindFastest, FindsNothingWhereNothingFits) {
  Inputs in = inputs_of("model.name_or_path=Qwen/Qwen2.5-72B --device rtx4090");
  EXPECT_FALSE(find_fastest(in));
}

TEST(Divisors, AreAllThereOnce) {
  EXPECT_EQ(divisors(1), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(divisors(36), (std::vector<std::int64_t>{1, 2, 3, 4, 6, 9, 12, 18, 36}));
  EXPECT_EQ(divisors(97), (std::vector<std::int64_t>{1, 97}));
}

}  // namespace
}  // namespace dpo::plan
