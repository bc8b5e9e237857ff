#include "config/modern.h"

#include <gtest/gtest.h>

#include "config/compose.h"
#include "config/print.h"
#include "unit/config/helpers.h"

namespace dpo::config {
namespace {

Resolved composed(const Words& words) { return compose({words, {}, {}}); }

TEST(Modern, TheShortFormChoosesIt) {
  const Resolved run = composed({"model=org/Base-1B", "data=pairs.jsonl", "loss=dpo"});
  EXPECT_EQ(run.values.defaults, Defaults::modern);
  EXPECT_EQ(run.values.model.name_or_path, "org/Base-1B");
  EXPECT_EQ(run.values.datasets, Words{"pairs.jsonl"});
  EXPECT_EQ(run.values.exp_name, "dpo-Base-1B");
  EXPECT_EQ(run.values.local_run_dir, "runs/dpo-Base-1B");
  EXPECT_EQ(run.values.optimizer, Optimizer::AdamW);
  EXPECT_EQ(run.values.lr_schedule, Schedule::linear);
  EXPECT_DOUBLE_EQ(run.values.loss.beta, 0.1);
  EXPECT_FALSE(run.values.wandb.enabled);
  EXPECT_EQ(origin_of(run, "defaults"), "chosen by model=org/Base-1B data=pairs.jsonl");
  EXPECT_NE(modern_note(run).find("optimizer=AdamW"), std::string::npos);
}

TEST(Modern, BetaIsThatOfTheLoss) {
  const auto beta = [](const std::string& loss) {
    return composed({"model=org/Base-1B", "data=pairs.jsonl", "loss=" + loss}).values.loss.beta;
  };
  EXPECT_DOUBLE_EQ(beta("ipo"), 0.1);
  EXPECT_DOUBLE_EQ(beta("simpo"), 2);
  EXPECT_DOUBLE_EQ(beta("sppo_hard"), 0.001);
}

TEST(Modern, AFolderWithoutANameHasARunWithOne) {
  EXPECT_EQ(composed({"model=..", "data=pairs.jsonl", "loss=dpo"}).values.exp_name, "dpo-model");
}

TEST(Modern, TheOriginalsFormsKeepItsDefaults) {
  for (const Words& words : {Words{"model=pythia28", "exp_name=e"},
                             Words{"model=blank_model", "model.name_or_path=org/m", "exp_name=e"}}) {
    const Resolved run = composed(words);
    EXPECT_EQ(run.values.defaults, Defaults::original);
    EXPECT_EQ(run.values.optimizer, Optimizer::RMSprop);
    EXPECT_FALSE(run.values.local_run_dir);
    EXPECT_EQ(modern_note(run), "");
  }
}

TEST(Modern, EitherCanBeAskedFor) {
  const Resolved modern = composed({"model=pythia28", "datasets=[hh]", "loss=dpo", "defaults=modern"});
  EXPECT_EQ(modern.values.optimizer, Optimizer::AdamW);
  EXPECT_EQ(modern.values.exp_name, "dpo-pythia-2.8b");
  const Resolved original =
      composed({"model=org/m", "data=[a.jsonl,b.jsonl]", "exp_name=e", "defaults=original"});
  EXPECT_EQ(original.values.datasets, (Words{"a.jsonl", "b.jsonl"}));
  EXPECT_EQ(original.values.optimizer, Optimizer::RMSprop);
}

TEST(Modern, ChangesNothingThatIsGiven) {
  const TempFolder folder;
  const auto file = folder.write("my.yaml", "defaults: modern\nlr: 3e-6\nloss: {name: simpo}\n");
  const RunConfig run =
      compose({{"model=org/m", "data=a.jsonl", "loss=simpo", "optimizer=SGD", "exp_name=e"}, file, {}})
          .values;
  EXPECT_DOUBLE_EQ(run.lr, 3e-6);
  EXPECT_EQ(run.optimizer, Optimizer::SGD);
  EXPECT_EQ(run.exp_name, "e");
  EXPECT_EQ(run.local_run_dir, "runs/e");
}

TEST(Modern, TheRateFollowsLossAndAdapter) {
  const auto rate = [](const Words& more) {
    Words words = {"model=org/m", "data=a.jsonl"};
    words.insert(words.end(), more.begin(), more.end());
    return composed(words).values.lr;
  };
  EXPECT_DOUBLE_EQ(rate({"loss=sft"}), 2e-5);
  EXPECT_DOUBLE_EQ(rate({"loss=sft", "adapter=lora"}), 2e-4);
  EXPECT_DOUBLE_EQ(rate({"loss=dpo"}), 1e-6);
  EXPECT_DOUBLE_EQ(rate({"loss=kto", "adapter=lora"}), 1e-5);
}

TEST(Modern, ACheckpointIsCalledAsItsRun) {
  EXPECT_EQ(composed({"model=runs/sft/LATEST", "data=a.jsonl", "loss=dpo"}).values.exp_name, "dpo-sft");
}

TEST(Modern, NeedsData) {
  EXPECT_EQ(problems_of({{"model=org/m", "loss=dpo"}, {}, {}}).find("data: required;"), 0u);
}

// A folder with a model that has the name of a preset must be written as ./NAME.
TEST(Modern, PresetsComeFirst) {
  EXPECT_EQ(composed({"model=pythia28", "data=a.jsonl"}).values.model.name_or_path, "EleutherAI/pythia-2.8b");
  EXPECT_EQ(composed({"model=./pythia28", "data=a.jsonl"}).values.model.name_or_path, "./pythia28");
  EXPECT_NE(problems_of({{"model=pythia82", "exp_name=e"}, {}, {}}).find("there is no preset"),
            std::string::npos);
}

TEST(Modern, SurvivesAFile) {
  const Resolved run = composed({"model=org/m", "data=a.jsonl", "loss=dpo"});
  const TempFolder folder;
  const Resolved again = compose({{}, folder.write("run.yaml", to_yaml(run)), {}});
  EXPECT_EQ(again.values.defaults, Defaults::modern);
  EXPECT_EQ(modern_note(again), "");
  EXPECT_EQ(to_yaml({again.values, run.tree, {}}), to_yaml(run));
}

}  // namespace
}  // namespace dpo::config
