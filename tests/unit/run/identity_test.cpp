#include "run/identity.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "config/schema.h"
#include "config/yaml_reader.h"

namespace dpo::run {
namespace {

using config::Effect;

config::RunConfig default_config() {
  config::RunConfig config;
  for (const config::Field& field : config::schema())
    if (field.default_text != "???") field.read(config::default_of(field), config);
  return config;
}

void set(config::RunConfig& config, const std::string& key, const std::string& value) {
  const config::Field* const field = config::find_field(key);
  ASSERT_TRUE(field) << key;
  ASSERT_TRUE(field->read(config::read_default_yaml("v: " + value).children[0], config)) << key;
}

// Returns a LoRA run of DPO in which every key of the identity has a value.
config::RunConfig lora_config() {
  config::RunConfig config = default_config();
  set(config, "model.name_or_path", "models/m");
  set(config, "loss.name", "dpo");
  set(config, "loss.beta", "0.1");
  set(config, "adapter.name", "lora");
  return config;
}

std::string message_of(const Identity& saved, const Identity& now) {
  try {
    check_identity(saved, now, "runs/a/step-40");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(IdentityOfKeys, HasExactlyTheKeysThatDecideTheResult) {
  const Identity identity = identity_of_keys(lora_config());
  for (const config::Field& field : config::schema())
    EXPECT_EQ(identity.contains(field.key), field.effect == Effect::result) << field.key;
  for (const auto& [key, _] : identity) EXPECT_TRUE(config::find_field(key)) << key;
  EXPECT_TRUE(identity.contains("fsdp_reduce_dtype"));
}

std::string other_value(const config::Field& field, const config::RunConfig& config) {
  const std::string& expected = field.expected;
  if (expected.starts_with("a whole")) return "7";
  if (expected.starts_with("a num")) return "0.25";
  if (expected.starts_with("true")) return field.write(config).text == "true" ? "false" : "true";
  if (expected.starts_with("a list of two")) return "[0.25, 0.5]";
  if (expected.starts_with("a list")) return "[z]";
  if (expected.starts_with("a map of c")) return "{prompt: z}";
  if (expected.starts_with("a map of v")) return "{y: z}";
  if (expected.starts_with("a map of num")) return "{z: 0.25}";
  if (expected.starts_with("a map of who")) return "{z: 7}";
  for (const std::string& choice : field.choices)
    if (choice != field.write(config).text && choice != "float32") return choice;
  return "z";
}

TEST(IdentityOfKeys, ChangesWithThoseKeysOnly) {
  const config::RunConfig config = lora_config();
  const Identity before = identity_of_keys(config);
  for (const config::Field& field : config::schema()) {
    config::RunConfig changed = config;
    set(changed, field.key, other_value(field, config));
    const Identity after = identity_of_keys(changed);
    if (field.effect == Effect::result)
      EXPECT_NE(before.at(field.key), after.at(field.key)) << field.key;
    else
      EXPECT_EQ(before, after) << field.key;
  }
}

// Checkpoints of earlier versions have these texts, so they must not change.
TEST(IdentityOfKeys, WritesValuesAsEarlierVersionsDid) {
  config::RunConfig config = lora_config();
  set(config, "datasets", "[a.jsonl, hh]");
  set(config, "lr", "1e-3");
  set(config, "optimizer", "AdamW");
  set(config, "optimizer_betas", "[0.9, 0.95]");
  set(config, "optimizer_eps", "1e-6");
  set(config, "adapter.targets", "[q_proj, v_proj]");
  set(config, "adapter.rank_pattern", "{q_proj: 32, '.*\\.k_proj': 4}");
  set(config, "adapter.alpha_pattern", "{q_proj: 64}");
  const Identity identity = identity_of_keys(config);
  const Identity expected = {{"datasets", "a.jsonl,hh"},
                             {"lr", "0.001"},
                             {"max_grad_norm", "10"},
                             {"optimizer_betas", "[0.9, 0.95]"},
                             {"optimizer_eps", "1e-06"},
                             {"optimizer_state", "null"},
                             {"weight_decay", "null"},
                             {"fp8", "false"},
                             {"loss.name", "dpo"},
                             {"loss.beta", "0.1"},
                             {"loss.divergence", "reverse_kl"},
                             {"model.fsdp_policy_mp", "null"},
                             {"model.reference_dtype", "float32"},
                             {"adapter.alpha", "32"},
                             {"adapter.targets", "[q_proj, v_proj]"},
                             {"adapter.modules_to_save", "[]"},
                             {"adapter.rank_pattern", R"({".*\\.k_proj": 4, "q_proj": 32})"},
                             {"adapter.alpha_pattern", R"({"q_proj": 64})"}};
  for (const auto& [key, value] : expected) EXPECT_EQ(identity.at(key), value) << key;
}

TEST(IdentityOfKeys, HasNullForWhatTheRunDoesNotHave) {
  config::RunConfig config = default_config();
  set(config, "optimizer_state", "float32");  // the dtype of the weights too
  const Identity identity = identity_of_keys(config);
  for (const char* key : {"adapter.name", "adapter.r", "adapter.targets", "model.reference_dtype",
                          "optimizer_state", "model.router_aux_loss_coef"})
    EXPECT_EQ(identity.at(key), "null") << key;
}

TEST(CheckIdentity, SaysWhatDiffers) {
  const Identity saved = {{"lr", "0.001"}, {"seed", "0"}};
  EXPECT_EQ(message_of(saved, saved), "");
  EXPECT_EQ(message_of(saved, {{"lr", "0.001"}}), "");
  EXPECT_TRUE(
      message_of(saved, {{"lr", "0.1"}}).starts_with("resume: lr is 0.001 in runs/a/step-40, but 0.1"));
}

TEST(CheckIdentity, TakesTheDefaultForWhatWasNotSaved) {
  EXPECT_EQ(message_of({}, {{"fp8", "false"}, {"adapter.r", "null"}, {"loss.gamma", "0.5"}}), "");
  EXPECT_NE(message_of({}, {{"fp8", "true"}}).find("does not record fp8"), std::string::npos);
  EXPECT_NE(message_of({}, {{"loss.gamma", "0.25"}}).find("does not record loss.gamma"), std::string::npos);
}

TEST(CheckIdentity, AcceptsWhatOlderCheckpointsCannotTellWithANote) {
  EXPECT_TRUE(check_identity({}, {{"fsdp_reduce_dtype", "float32"}}, "step-40").empty());
  const auto notes = check_identity({}, {{"fsdp_reduce_dtype", "bfloat16"}}, "step-40");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("did not record fsdp_reduce_dtype"), std::string::npos);
  EXPECT_NE(message_of({{"fsdp_reduce_dtype", "float32"}}, {{"fsdp_reduce_dtype", "bfloat16"}}), "");
}

model::ModelConfig neox(bool parallel, double base) {
  return model::parse_model_config(
      fmt::format(R"({{"model_type": "gpt_neox", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64,
          "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 512, "rotary_pct": 1.0,
          "use_parallel_residual": {}, "rotary_emb_base": {}}})",
                  parallel, base),
      "config.json");
}

TEST(CheckIdentity, SaysWhatDiffersInTheModelsConfigJson) {
  const Identity saved = identity_of_architecture(neox(true, 10000));
  EXPECT_EQ(message_of(saved, identity_of_architecture(neox(true, 10000))), "");
  EXPECT_TRUE(
      message_of(saved, identity_of_architecture(neox(false, 500000)))
          .starts_with(
              "resume: the model's config.json is not that of runs/a/step-40: rope_theta was 10000, is "
              "500000; use_parallel_residual was true, is false."));
  EXPECT_TRUE(check_identity(saved, {{"fp8", "false"}}, "step-40").empty());
}

TEST(CheckIdentity, AcceptsACheckpointWithoutAConfigJsonWithANote) {
  const auto notes = check_identity({}, identity_of_architecture(neox(true, 10000)), "step-40");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("did not record the model's config.json"), std::string::npos);
}

TEST(CheckIdentity, NamesAnotherAdapterOnce) {
  const std::string message = message_of({{"adapter.name", "null"}, {"adapter.r", "null"}},
                                         {{"adapter.name", "lora"}, {"adapter.r", "16"}});
  EXPECT_NE(message.find("adapter.name is null"), std::string::npos);
  EXPECT_EQ(message.find("adapter.r"), std::string::npos);
}

}  // namespace
}  // namespace dpo::run
