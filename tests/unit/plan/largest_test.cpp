#include "plan/largest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "plan/architecture.h"
#include "plan/output.h"
#include "plan/search.h"
#include "test_plans.h"

namespace dpo::plan {
namespace {

std::vector<LargestModel> largest(const std::string& line) {
  const Inputs in = inputs_of("model=llama7b " + line);
  return find_largest(in.run, in.machine);
}

std::string typed(const LargestModel& model) {
  return fmt::format(" model.name_or_path={} {}", model.in.run.model.name_or_path,
                     fmt::join(model.fit.overrides, " "));
}

TEST(Largest, ModelsFitAsTheySay) {
  for (const std::string& line :
       {std::string("loss=dpo loss.beta=0.1 batch_size=4 --device rtx4090"),
        std::string("loss=sft batch_size=2 --device a100-40gb --gpus 2"),
        std::string("adapter=lora loss=dpo loss.beta=0.1 batch_size=2 --device l40s")}) {
    std::int64_t count = 0;
    const auto models = largest(line);
    ASSERT_FALSE(models.empty()) << line;
    for (const LargestModel& model : models) {
      EXPECT_GT(model.in.table->count(), count) << line;
      count = model.in.table->count();
      const Plan plan = plan_of(line + typed(model));
      EXPECT_TRUE(plan.passes() && plan.fits()) << line << typed(model);
      EXPECT_EQ(plan.memory.total(), model.fit.plan.memory.total());
    }
  }
}

// Models 0 and 1 train all weights, models 2 and 3 use LoRA. The first has no costs, and the last has a
// quantized base.
TEST(Largest, ModelsGrowByWhatIsGivenUp) {
  const auto models = largest("loss=dpo loss.beta=0.1 batch_size=4 --device h200");
  ASSERT_EQ(models.size(), 4u);
  const auto trains_all = [&](std::size_t i) {
    return models[i].fit.plan.resolved.adapter.name == config::Adapter::none;
  };
  EXPECT_TRUE(trains_all(0) && trains_all(1) && !trains_all(2) && !trains_all(3));
  EXPECT_TRUE(models[0].fit.costs.empty());
  EXPECT_EQ(models[2].fit.costs, lora_of(models[2].in.run).reason);
  EXPECT_NE(models[3].fit.costs.find("8 bits"), std::string::npos) << models[3].fit.costs;
}

TEST(Largest, NoLargerOneFits) {
  const std::string line =
      "batch_size=4 loss=dpo loss.beta=0.1 adapter=lora adapter.base_dtype=nf4 --device rtx4090";
  const auto models = largest(line);
  ASSERT_FALSE(models.empty());
  for (const std::string& name : built_in_models()) {
    const Inputs in = inputs_of(line + " model.name_or_path=" + name);
    if (in.table->count() <= models.back().in.table->count()) continue;
    EXPECT_FALSE(find_fastest(in, savings_of(in, Cost::bits, Cost::bits))) << name;
  }
}

// Pythia has no q_proj, and an adapter's reference cannot have its own dtype.
TEST(Largest, LeavesOutWhatDoesNotSuit) {
  const auto some = largest("adapter=lora adapter.targets=[q_proj] batch_size=1 --device l40s");
  ASSERT_FALSE(some.empty());
  const auto both =
      largest("loss=dpo loss.beta=0.1 model.reference_dtype=float32 batch_size=1 --device l40s");
  EXPECT_EQ(both.back().fit.plan.resolved.adapter.name, config::Adapter::lora);
  Inputs in = inputs_of("model=llama7b adapter=lora batch_size=1");
  in.run.adapter.targets = {"nothing"};
  EXPECT_THROW(find_largest(in.run, in.machine), UserError);
}

TEST(Largest, SaysWhereNothingFits) {
  Inputs in = inputs_of("model=pythia28 batch_size=1 --device cpu");
  in.machine.device.memory = 1e7;
  const auto none = find_largest(in.run, in.machine);
  EXPECT_TRUE(none.empty());
  EXPECT_NE(to_text(none, in.run, in.machine, false).find("None of the models"), std::string::npos);
}

TEST(Largest, SaysWhichSettingIsWrong) {
  Inputs in = inputs_of("model=pythia28 batch_size=4 eval_every=2 --device rtx4090");
  std::string message;
  try {
    find_largest(in.run, in.machine);
  } catch (const UserError& error) {
    message = error.what();
  }
  EXPECT_NE(message.find("the smallest: eval_every=2 is less than batch_size=4"), std::string::npos)
      << message;
}

// The numbers of parameters are those of the model cards.
TEST(Largest, KnowsLargeModels) {
  for (const auto& [name, count] : {std::pair("Qwen/Qwen2.5-72B", 72'706'203'648),
                                    {"meta-llama/Llama-3.1-70B", 70'553'706'496},
                                    {"Qwen/Qwen3-14B", 14'768'307'200},
                                    {"Qwen/Qwen3-32B", 32'762'123'264},
                                    {"Qwen/Qwen2.5-14B", 14'770'033'664},
                                    {"Qwen/Qwen2.5-32B", 32'763'876'352}})
    EXPECT_EQ(model::tensor_table(find_architecture(name).shape).count(), count) << name;
}

}  // namespace
}  // namespace dpo::plan
