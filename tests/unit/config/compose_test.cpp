#include "config/compose.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "config/print.h"
#include "unit/config/helpers.h"

namespace dpo::config {
namespace {

RunConfig run(Words words) { return compose({with_needed(std::move(words)), {}, {}}).values; }

TEST(Compose, DefaultsAreTheOriginals) {
  const RunConfig config = run({});
  EXPECT_EQ(config.seed, 0);
  EXPECT_EQ(config.batch_size, 4);
  EXPECT_EQ(config.eval_batch_size, 16);
  EXPECT_FALSE(config.fsdp_port);
  EXPECT_EQ(config.datasets, Words{"hh"});
  EXPECT_EQ(config.local_dirs, (Words{"/scr-ssd", "/scr", ".cache"}));
  EXPECT_DOUBLE_EQ(config.lr, 5e-7);
  EXPECT_EQ(config.max_grad_norm, 10);
  EXPECT_EQ(config.max_length, 512);
  EXPECT_EQ(config.max_prompt_length, 256);
  EXPECT_EQ(config.n_epochs, 1);
  EXPECT_FALSE(config.n_examples);
  EXPECT_EQ(config.trainer, Trainer::Basic);
  EXPECT_EQ(config.optimizer, Optimizer::RMSprop);
  EXPECT_FALSE(config.optimizer_betas || config.optimizer_eps || config.weight_decay);
  EXPECT_EQ(config.warmup_steps, 150);
  EXPECT_EQ(config.eval_every, 20000);
  EXPECT_FALSE(config.save_every);
  EXPECT_TRUE(config.wandb.enabled);
  EXPECT_EQ(config.wandb.project, "direct-preference-optimization");
  EXPECT_EQ(config.loss.name, Loss::sft);
  EXPECT_EQ(config.model.policy_dtype, Dtype::float32);
  EXPECT_FALSE(config.model.reference_dtype);
  EXPECT_FALSE(config.model.router_aux_loss_coef);
}

TEST(Compose, TheCommandLineOfTheOriginal) {
  const RunConfig config =
      compose({{"model=pythia28", "datasets=[hh]", "loss=dpo", "loss.beta=0.1",
                "exp_name=anthropic_dpo_pythia28", "gradient_accumulation_steps=2", "batch_size=32",
                "eval_batch_size=32", "trainer=FSDPTrainer", "sample_during_eval=false",
                "model.fsdp_policy_mp=bfloat16", "model.archive=run/LATEST/policy.pt"},
               {},
               {}})
          .values;
  EXPECT_EQ(config.model.name_or_path, "EleutherAI/pythia-2.8b");
  EXPECT_EQ(config.model.block_name, "GPTNeoXLayer");
  EXPECT_EQ(config.model.fsdp_policy_mp, Dtype::bfloat16);
  EXPECT_EQ(config.model.archive, "run/LATEST/policy.pt");
  EXPECT_EQ(config.loss.name, Loss::dpo);
  EXPECT_DOUBLE_EQ(config.loss.beta, 0.1);
  EXPECT_EQ(config.trainer, Trainer::Fsdp);
  EXPECT_EQ(config.sample_during_eval, Sampling::none);
}

TEST(Compose, EveryPreset) {
  const std::pair<const char*, const char*> models[] = {{"gpt2-large", "gpt2-large"},
                                                        {"gpt2-xl", "gpt2-xl"},
                                                        {"gptj", "EleutherAI/gpt-j-6b"},
                                                        {"llama7b", "huggyllama/llama-7b"},
                                                        {"pythia28", "EleutherAI/pythia-2.8b"},
                                                        {"pythia69", "EleutherAI/pythia-6.9b"},
                                                        {"gemma3-1b", "google/gemma-3-1b-it"},
                                                        {"gemma3-4b", "google/gemma-3-4b-it"},
                                                        {"phi4", "microsoft/phi-4"},
                                                        {"olmo2-7b", "allenai/OLMo-2-1124-7B"},
                                                        {"smollm3", "HuggingFaceTB/SmolLM3-3B"},
                                                        {"mixtral", "mistralai/Mixtral-8x7B-v0.1"},
                                                        {"olmoe", "allenai/OLMoE-1B-7B-0924"},
                                                        {"qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B"}};
  for (const auto& [preset, name] : models)
    EXPECT_EQ(run({std::string("model=") + preset}).model.name_or_path, name);
  EXPECT_EQ(run({"model=blank_model", "model.name_or_path=m"}).model.name_or_path, "m");
  EXPECT_EQ(run({"loss=ipo", "loss.beta=0.2"}).loss.name, Loss::ipo);
}

TEST(Compose, TheLastOfTheSameWordWins) {
  EXPECT_DOUBLE_EQ(run({"lr=1", "lr=2"}).lr, 2);
  EXPECT_EQ(run({"model=pythia28", "model=gptj"}).model.name_or_path, "EleutherAI/gpt-j-6b");
  EXPECT_EQ(run({"model.archive=a", "model=gptj"}).model.archive, "a")
      << "presets come first, wherever they stand";
}

TEST(Compose, AddingForcingDeleting) {
  EXPECT_EQ(run({"+n_examples=5"}).n_examples, 5) << "null may be added to, as in Hydra";
  EXPECT_EQ(run({"++batch_size=8"}).batch_size, 8);
  EXPECT_EQ(run({"+datasets=[shp]"}).datasets, Words{"shp"});
  EXPECT_FALSE(run({"~n_epochs", "n_examples=5"}).n_epochs);
  EXPECT_FALSE(run({"~n_epochs=1", "n_examples=5"}).n_epochs);
  EXPECT_FALSE(run({"wandb.entity=me", "~wandb.entity"}).wandb.entity);
  EXPECT_EQ(to_json(compose({with_needed({"+foo=1", "~foo"}), {}, {}})).find("foo"), std::string::npos);
}

TEST(Compose, MapsJoinAndListsReplace) {
  const RunConfig config = run({"wandb={enabled: false, entity: me}", "datasets=[shp, se]", "datasets.1=hh"});
  EXPECT_FALSE(config.wandb.enabled);
  EXPECT_EQ(config.wandb.entity, "me");
  EXPECT_EQ(config.wandb.project, "direct-preference-optimization");
  EXPECT_EQ(config.datasets, (Words{"shp", "hh"}));
  EXPECT_DOUBLE_EQ(run({"loss={name: dpo, beta: 0.3}"}).loss.beta, 0.3);
}

TEST(Compose, NumbersAndTextFindTheirType) {
  EXPECT_DOUBLE_EQ(run({"lr=1"}).lr, 1);
  EXPECT_EQ(run({"eval_every=20_000"}).eval_every, 20000);
  EXPECT_EQ(run({"exp_name=123"}).exp_name, "123");
  EXPECT_EQ(run({"exp_name=true"}).exp_name, "true");
  EXPECT_EQ(run({"exp_name='a b'"}).exp_name, "a b");
}

TEST(Compose, SettingsOfTheOptimizer) {
  const RunConfig config =
      run({"optimizer=AdamW", "optimizer_betas=[0.9,0.95]", "optimizer_eps=1e-6", "weight_decay=0"});
  EXPECT_EQ(config.optimizer_betas, (std::vector<double>{0.9, 0.95}));
  EXPECT_EQ(config.optimizer_eps, 1e-6);
  EXPECT_EQ(config.weight_decay, 0);
  EXPECT_EQ(run({"optimizer=SGD", "weight_decay=0.1"}).weight_decay, 0.1);
  EXPECT_EQ(run({"optimizer=Adam", "optimizer_betas=[0,0.5]"}).optimizer_betas,
            (std::vector<double>{0, 0.5}));
  EXPECT_FALSE(run({"optimizer=SGD", "optimizer_betas=null"}).optimizer_betas);
}

TEST(Compose, EvaluationCanBeSwitchedOff) {
  EXPECT_FALSE(run({"eval_every=null"}).eval_every);
  EXPECT_FALSE(run({"~eval_every"}).eval_every);
}

TEST(Compose, TheEnvironmentFindsItsTypeToo) {
  const Variable batch("DPO_TEST_BATCH", "64");
  const Variable debug("DPO_TEST_DEBUG", "true");
  const Resolved resolved =
      compose({with_needed({"batch_size=${oc.env:DPO_TEST_BATCH}", "debug=${oc.env:DPO_TEST_DEBUG}",
                            "lr=${oc.env:DPO_NOT_SET,1e-6}", "max_length=${batch_size}",
                            "exp_name=${oc.env:DPO_TEST_BATCH}"}),
               {},
               {}});
  EXPECT_EQ(resolved.values.batch_size, 64);
  EXPECT_TRUE(resolved.values.debug);
  EXPECT_DOUBLE_EQ(resolved.values.lr, 1e-6);
  EXPECT_EQ(resolved.values.max_length, 64);
  EXPECT_EQ(resolved.values.exp_name, "64");
  EXPECT_EQ(origin_of(resolved, "batch_size"), "environment variable DPO_TEST_BATCH");
  EXPECT_EQ(origin_of(resolved, "lr"), "environment variable DPO_NOT_SET (not set: its default)");
}

TEST(Compose, AddedKeysAreKeptAndNoted) {
  const Resolved resolved =
      compose({with_needed({"+batchsize=8", "+my.note=text", "+model.extra=1"}), {}, {}});
  EXPECT_EQ(resolved.values.batch_size, 4);
  ASSERT_EQ(resolved.notes.size(), 3u);
  const std::string notes = resolved.notes[0] + resolved.notes[1] + resolved.notes[2];
  EXPECT_NE(notes.find("batchsize: unused key (command line: +batchsize=8); did you mean 'batch_size'?"),
            std::string::npos);
  EXPECT_NE(notes.find("my: unused key"), std::string::npos);
  EXPECT_NE(notes.find("model.extra: unused key"), std::string::npos);
  EXPECT_NE(to_json(resolved).find("\"note\": \"text\""), std::string::npos);
}

TEST(Compose, OriginsOfEveryKind) {
  const TempFolder folder;
  const auto file = folder.write("mine.yaml", "# mine\nlr: 1e-6\n");
  const Resolved resolved = compose({{"exp_name=e", "model=pythia28"}, file, {}});
  EXPECT_EQ(origin_of(resolved, "seed"), "default");
  EXPECT_EQ(origin_of(resolved, "lr"), file.string() + ":2");
  EXPECT_EQ(origin_of(resolved, "exp_name"), "command line");
  EXPECT_EQ(origin_of(resolved, "model.name_or_path"), "model/pythia28.yaml:3");
  EXPECT_EQ(origin_of(resolved, "model.archive"), "model/blank_model.yaml:4");
}

TEST(Compose, AFileIsLaidOverTheDefaults) {
  const TempFolder folder;
  const auto file =
      folder.write("mine.yaml", "exp_name: f\nmodel: {name_or_path: m, policy_dtype: bfloat16}\n");
  EXPECT_EQ(compose({{}, file, {}}).values.model.name_or_path, "m");
  EXPECT_EQ(compose({{"exp_name=g"}, file, {}}).values.exp_name, "g");
  const RunConfig chosen = compose({{"model=gptj"}, file, {}}).values;
  EXPECT_EQ(chosen.model.name_or_path, "EleutherAI/gpt-j-6b")
      << "a preset of the command line replaces the section";
  EXPECT_EQ(chosen.model.policy_dtype, Dtype::float32);
}

TEST(Compose, AFileWithADefaultsListIsOrderedByIt) {
  const TempFolder folder;
  const std::string values = "exp_name: f\nmodel: {name_or_path: m}\n";
  const auto after = folder.write("after.yaml", "defaults: [model: pythia28, _self_]\n" + values);
  const auto before = folder.write("before.yaml", "defaults: [_self_, model: pythia28]\n" + values);
  const auto silent = folder.write("silent.yaml", "defaults: [model: pythia28]\n" + values);
  EXPECT_EQ(compose({{}, after, {}}).values.model.name_or_path, "m");
  EXPECT_EQ(compose({{}, before, {}}).values.model.name_or_path, "EleutherAI/pythia-2.8b");
  EXPECT_EQ(compose({{}, silent, {}}).values.model.name_or_path, "m")
      << "as in Hydra, a file's own values come last";
  EXPECT_EQ(compose({{"model=gptj"}, after, {}}).values.model.block_name, "GPTJBlock");
  EXPECT_EQ(compose({{"model=gptj"}, after, {}}).values.model.name_or_path, "m") << "as in Hydra";
}

TEST(Compose, AFolderOfTheUsersComesFirst) {
  const TempFolder folder;
  folder.write("config.yaml", "lr: 1e-6\nexp_name: mine\n");
  folder.write("model/mine.yaml", "defaults: [pythia28, _self_]\npolicy_dtype: bfloat16\n");
  folder.write("model/bare.yaml", "name_or_path: b\n");
  folder.write("model/gptj.yaml", "name_or_path: other\n");
  folder.write("loss/soft.yaml", "name: dpo\nbeta: 0.5\n");
  const auto values = [&](Words words) { return compose({words, {}, {folder.path()}}).values; };
  EXPECT_DOUBLE_EQ(values({"model=mine"}).lr, 1e-6);
  EXPECT_EQ(values({"model=mine"}).model.name_or_path, "EleutherAI/pythia-2.8b");
  EXPECT_EQ(values({"model=mine"}).model.policy_dtype, Dtype::bfloat16);
  EXPECT_EQ(values({"model=bare"}).model.policy_dtype, Dtype::float32);
  EXPECT_EQ(values({"model=bare", "model.archive=a"}).model.archive, "a");
  EXPECT_EQ(values({"model=gptj"}).model.name_or_path, "other");
  EXPECT_DOUBLE_EQ(values({"model=bare", "loss=soft"}).loss.beta, 0.5);
  EXPECT_DOUBLE_EQ(values({"model=bare", "loss=soft", "loss.label_smoothing=0.1"}).loss.label_smoothing, 0.1);
}

TEST(WithOverrides, ChangesOnlyWhatIsAsked) {
  const RunConfig base =
      run({"batch_size=64", "loss=dpo", "loss.beta=0.1", "datasets=[hh, shp]", "model.archive=a"});
  const RunConfig changed = with_overrides(base, Words{"gradient_accumulation_steps=2", "loss.beta=0.2"});
  EXPECT_EQ(changed.batch_size, 64);
  EXPECT_EQ(changed.gradient_accumulation_steps, 2);
  EXPECT_DOUBLE_EQ(changed.loss.beta, 0.2);
  EXPECT_EQ(changed.datasets, base.datasets);
  EXPECT_EQ(changed.model.archive, "a");
  EXPECT_EQ(with_overrides(base, Words{"model=gptj"}).model.name_or_path, "EleutherAI/gpt-j-6b");
  EXPECT_EQ(with_overrides(base, Words{"loss=sft"}).loss.name, Loss::sft);
  EXPECT_THROW(with_overrides(base, Words{"batch_size=0"}), UserError);
  EXPECT_THROW(with_overrides(base, Words{"model=nope"}), UserError);
}

// The keys of an unknown loss are unknown too, so they are not reported.
TEST(Compose, AnUnknownLossIsOneProblem) {
  try {
    compose({{"loss=dpo", "loss.beta=0.1", "loss.name=sigmoid", "exp_name=e", "model=pythia28"}, {}, {}});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.problems().size(), 1u) << error.what();
  }
}

}  // namespace
}  // namespace dpo::config
