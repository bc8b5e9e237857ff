#include "plan/unused_keys.h"

#include <gtest/gtest.h>

namespace dpo::plan {
namespace {

std::string note(std::vector<std::string> overrides, const DataFacts& data = {}) {
  overrides.insert(overrides.end(), {"exp_name=e", "model.name_or_path=m"});
  return unused_keys_note(
      config::compose({.overrides = std::move(overrides), .config_file = {}, .config_dirs = {}}), data);
}

constexpr const char* kStart = "keys without effect on this run: ";

TEST(UnusedKeys, OfConversationsDependOnTheData) {
  const std::vector<std::string> keys = {"loss=sft", "chat_template=chatml", "data.train_on=last"};
  const std::string named = std::string(kStart) + "chat_template, data.train_on (the data is plain text)";
  EXPECT_EQ(note(keys, {.has_chats = false, .splits_by_hash = true}), named);
  EXPECT_EQ(note(keys, {.has_chats = true, .splits_by_hash = true}), "");
  EXPECT_EQ(note(keys), "");  // the data are not on this machine
  EXPECT_EQ(note({"loss=sft", "data.test_share=0.1"}, {.has_chats = false, .splits_by_hash = false}),
            std::string(kStart) + "data.test_share (the data has its own test split)");
}

TEST(UnusedKeys, AreOnlyThoseThatWereGivenAnotherValue) {
  EXPECT_EQ(note({"loss=sft", "eval_every=null"}), "");
  EXPECT_EQ(note({"loss=sft", "eval_every=null", "eval_batch_size=16"}), "");
  EXPECT_EQ(note({"loss=sft", "model=pythia28"}), "");  // its preset sets model.block_name
}

TEST(UnusedKeys, AreEachNamedOnceWithTheReason) {
  EXPECT_EQ(note({"loss=sft", "eval_every=null", "sample_during_eval=false", "n_eval_model_samples=3"}),
            std::string(kStart) + "n_eval_model_samples (eval_every=null)");
  EXPECT_EQ(note({"loss=sft", "sample_during_eval=false", "n_eval_model_samples=3", "debug=true",
                  "save_every=8", "keep_last=2", "wandb.entity=me"}),
            std::string(kStart) +
                "n_eval_model_samples (sample_during_eval=false); save_every, keep_last, wandb.entity "
                "(debug=true saves and sends nothing)");
  EXPECT_EQ(note({"loss=simpo", "loss.beta=2", "reference=live"}),
            std::string(kStart) + "reference (loss=simpo has no reference)");
  EXPECT_EQ(note({"loss=dpo", "loss.beta=2", "reference=live", "trainer=TensorParallelTrainer",
                  "fsdp_accumulate=whole", "rank_timeout_secs=9"}),
            std::string(kStart) +
                "fsdp_accumulate (trainer=TensorParallelTrainer does not shard without mesh.shard)");
}

}  // namespace
}  // namespace dpo::plan
