#include "plan/output.h"

#include <algorithm>
#include <regex>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "test_plans.h"

namespace dpo::plan {
namespace {

nlohmann::json json_of(const std::string& line) {
  const Inputs in = inputs_of(line);
  return nlohmann::json::parse(to_json(make_plan(in), in, find_fastest(in)));
}

TEST(Json, HoldsWhatScriptsNeed) {
  const nlohmann::json plan = json_of(kReferenceDpo + "eval_every=20001");
  EXPECT_EQ(plan["examples_per_gpu"].dump(), "4");
  EXPECT_EQ(plan["fits"], true);
  EXPECT_EQ(plan["resolved"]["eval_every"], 20'000);
  EXPECT_EQ(plan["resolved"]["save_every"], 20'000);
  EXPECT_TRUE(json_of(kReferenceDpo + "eval_every=null")["resolved"]["eval_every"].is_null());
  EXPECT_EQ(plan["resolved"]["gpus"], 4);
  EXPECT_EQ(plan["resolved"]["reference"], "live");
  double sum = 0;
  for (const auto& [name, bytes] : plan["memory"]["per_gpu_bytes"].items()) sum += bytes.get<double>();
  EXPECT_NEAR(plan["memory"]["total_bytes"].get<double>(), sum, 10);
  EXPECT_GT(plan["time"]["examples_per_second"], 0);
  EXPECT_TRUE(plan["fit"]["overrides"].is_array());
  for (const auto& rule : plan["rules"])
    for (const char* key : {"id", "verdict", "message", "remedies"}) EXPECT_TRUE(rule.contains(key)) << rule;
}

TEST(Json, CarriesRemediesAsWords) {
  const nlohmann::json plan =
      json_of("model=pythia28 trainer=FSDPTrainer batch_size=16 gradient_accumulation_steps=2 --gpus 8");
  EXPECT_EQ(plan["examples_per_gpu"].dump(), "1");
  const nlohmann::json& rule = plan["rules"][0];
  EXPECT_EQ(rule["id"], "batch-per-gpu");
  EXPECT_EQ(rule["verdict"], "warning");
  EXPECT_EQ(rule["remedies"][0]["overrides"],
            (std::vector<std::string>{"model.fsdp_policy_mp=bfloat16", "gradient_accumulation_steps=1"}));
}

TEST(Json, SaysTheMesh) {
  const nlohmann::json plan = json_of(
      "model=pythia28 trainer=FSDPTrainer batch_size=32 mesh.shard=4 mesh.tensor=2 --gpus 4 --nodes 2");
  EXPECT_EQ(plan["resolved"]["mesh"], (nlohmann::json{{"replica", 1}, {"shard", 4}, {"tensor", 2}}));
  EXPECT_EQ(plan["resolved"]["ranks"], 8);
  EXPECT_EQ(json_of("model=pythia28 --gpus 4")["resolved"]["ranks"], 1);
}

TEST(Text, SaysThatNothingIsEvaluated) {
  const Inputs in = inputs_of("model=pythia28 eval_every=null");
  EXPECT_NE(to_text(make_plan(in), in, false).find("examples, no evaluation, 1 checkpoint: "),
            std::string::npos);
}

TEST(Text, SaysTheMesh) {
  const Inputs in = inputs_of(
      "model=pythia28 trainer=FSDPTrainer batch_size=32 mesh.replica=2 mesh.tensor=2 --gpus 4 --nodes 2");
  std::string text = to_text(make_plan(in), in, false);
  std::replace(text.begin(), text.end(), '\n', ' ');  // the heading is wrapped
  EXPECT_NE(text.find("FSDPTrainer (2 replicas x 2 shards x 2 tensor)"), std::string::npos) << text;
  EXPECT_NE(text.find("gradient reduction"), std::string::npos) << text;
}

std::string text_of(const std::string& line) {
  const Inputs in = inputs_of(line);
  return to_text(make_plan(in), in, false);
}

TEST(Text, SaysNumbersAsAPersonWould) {
  const std::string one = text_of("model=pythia28 --device cpu");
  EXPECT_NE(one.find("\nMemory, GiB\n"), std::string::npos) << one;
  EXPECT_NE(text_of("model=pythia28 trainer=FSDPTrainer mesh.shard=2 --device cpu")
                .find("\nMemory per process, GiB\n"),
            std::string::npos);
  EXPECT_NE(text_of("model=pythia28").find("\nMemory per GPU, GiB\n"), std::string::npos);
  EXPECT_NE(one.find("(2.78B parameters)"), std::string::npos) << one;
  EXPECT_NE(text_of("model=blank_model model.name_or_path=gpt2").find("(124M parameters)"),
            std::string::npos);
  EXPECT_NE(text_of("model=mixtral").find("Mixtral (46.7B parameters, 12.9B active)"), std::string::npos);
  EXPECT_NE(text_of("model=pythia28 n_examples=4 do_first_eval=false")
                .find("1 update over 4 examples, 1 evaluation, 1 checkpoint:"),
            std::string::npos)
      << text_of("model=pythia28 n_examples=4");
}

TEST(Text, SaysWhereTheTimeGoes) {
  const auto unwrapped = [](const std::string& more) {
    return std::regex_replace(
        text_of("model=pythia28 loss=dpo loss.beta=0.1 batch_size=64 eval_every=6400 " + more),
        std::regex("\\s+"), " ");
  };
  const std::string live = unwrapped("reference=live");
  EXPECT_NE(live.find("of that: 27 evaluations of 256 pairs, "), std::string::npos) << live;
  EXPECT_NE(
      live.find("of that: 4 texts of up to 64 tokens, 27 times from the policy and once from the reference"),
      std::string::npos)
      << live;
  EXPECT_EQ(live.find("reference scores"), std::string::npos) << live;
  const std::string cached = unwrapped("reference=cached sample_during_eval=false");
  EXPECT_NE(cached.find("of that: computed once, before the first update"), std::string::npos) << cached;
  EXPECT_NE(cached.find("none: sample_during_eval=false"), std::string::npos) << cached;
}

TEST(Text, FitsATerminalAndHasColoursOnlyWhenAsked) {
  const Inputs in = inputs_of(
      "model=pythia28 loss=dpo loss.beta=0.1 trainer=FSDPTrainer batch_size=16 model.fsdp_policy_mp=bfloat16 "
      "gradient_accumulation_steps=2 --gpus 8");
  const Plan plan = make_plan(in);
  const std::string text = to_text(plan, in, false);
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_NE(to_text(plan, in, true).find('\033'), std::string::npos);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
  for (const char* piece : {"8 x a100-80gb", "warning batch-per-gpu", "-> gradient_accumulation_steps=1",
                            "(8 shards)", "Memory per GPU, GiB", "total", "pairs/s"})
    EXPECT_NE(text.find(piece), std::string::npos) << piece;
}

std::vector<std::string> banner_of(const std::string& line, const RunPaths& paths,
                                   const TextStyle& style = {}) {
  const Inputs in = inputs_of(line);
  std::istringstream text(to_banner(make_plan(in), in, paths, style));
  std::vector<std::string> lines;
  for (std::string next; std::getline(text, next);) lines.push_back(next);
  return lines;
}

TEST(Banner, IsFiveLines) {
  const auto lines = banner_of(kReferenceDpo, {"runs/dpo", ""});
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0],
            "train   loss=dpo, EleutherAI/pythia-2.8b (2.78B parameters), weights of sft/LATEST, reference "
            "live");
  EXPECT_EQ(lines[1], "data    hh: 160,800 pairs of about 210 tokens");
  EXPECT_EQ(lines[2],
            "how     5,025 updates of 32 pairs, FSDPTrainer (4 shards), 4 x a100-80gb, bfloat16 over float32 "
            "weights, RMSprop, fsdp_reshard=never");
  EXPECT_TRUE(lines[3].starts_with("needs   ")) << lines[3];
  EXPECT_NE(lines[3].find(" per GPU, about "), std::string::npos) << lines[3];
  EXPECT_NE(lines[3].find(" evaluations of 256 pairs, "), std::string::npos) << lines[3];
  EXPECT_EQ(lines[4], "writes  runs/dpo; Ctrl-C saves and stops, dpo train resume=runs/dpo continues");
}

TEST(Banner, SaysWhatIsDifferent) {
  const auto resumed = banner_of("model=pythia28 loss=sft eval_every=null debug=true datasets=[nobody/has]",
                                 {"runs/sft", "runs/sft/step-64"});
  EXPECT_TRUE(resumed[0].ends_with("(2.78B parameters), resumed from runs/sft/step-64")) << resumed[0];
  EXPECT_EQ(resumed[1], "data    nobody/has, not counted yet");
  EXPECT_TRUE(resumed[3].ends_with(", no evaluation")) << resumed[3];
  EXPECT_EQ(resumed[4], "writes  runs/sft, without checkpoints (debug=true)");
}

TEST(Banner, WrapsAtWords) {
  for (const std::size_t width : {40, 77, 100})
    for (const std::string& line : banner_of(kReferenceDpo, {"runs/dpo", ""}, {.width = width}))
      EXPECT_LE(line.size(), width) << line;
}

TEST(Warnings, AreShownAlone) {
  const Inputs in = inputs_of("model=pythia28 warmup_steps=100000 n_examples=64 --device cpu");
  const std::string text = warnings_to_text(make_plan(in), {});
  EXPECT_NE(text.find("  warning warmup "), std::string::npos) << text;
  EXPECT_EQ(text.find("  ok "), std::string::npos) << text;
}

}  // namespace
}  // namespace dpo::plan
