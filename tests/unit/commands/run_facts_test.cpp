#include "commands/run_facts.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace dpo::commands {
namespace {

TEST(WithoutFolders, KeepsNamesAndHidesFolders) {
  for (const char* name : {"hh", "pairs.jsonl", "EleutherAI/pythia-2.8b", "EleutherAI/pythia-2.8b@v0"})
    EXPECT_EQ(without_folders(name), name);
  EXPECT_EQ(without_folders("acme-contract/pairs.jsonl"), "pairs.jsonl");
  EXPECT_EQ(without_folders("runs/base-of-alice"), "base-of-alice");  // not known to be on the hub
  EXPECT_EQ(without_folders("/home/alice/pairs.jsonl"), "pairs.jsonl");
  EXPECT_EQ(without_folders("~/models/base/"), "base");
  EXPECT_EQ(without_folders("../base"), "base");
  EXPECT_EQ(without_folders("./base"), "base");
  EXPECT_EQ(without_folders(".cache/alice/sft_2026/LATEST"), "RUN/LATEST");
  EXPECT_EQ(without_folders("sft/step-320"), "RUN/step-320");
}

TEST(WithoutFolders, KeepsWhatTheRunReadFromTheHub) {
  const HubNames names = std::set<std::string>{"org/model", "datasets/org/pairs@v2"};
  for (const char* name : {"org/model", "org/pairs@v2", "org/pairs@v2:part", "EleutherAI/pythia-2.8b"})
    EXPECT_EQ(without_folders(name, names), name);
  for (const char* name : {"org/model@v2", "org/pairs", "else/model"})
    EXPECT_EQ(without_folders(name, names), std::string(name).substr(std::string(name).find('/') + 1));
}

// Viewing another user's run must not expose the viewer's environment.
TEST(ReadKeys, DoesNotReadTheEnvironment) {
  const std::filesystem::path run = std::filesystem::path(testing::TempDir()) / "dpo_foreign_run";
  std::filesystem::create_directories(run);
  ::setenv("DPO_TEST_TOKEN", "hf_secret", 1);
  std::ofstream(run / "config.yaml")
      << "exp_name: x\nmodel:\n  name_or_path: ${oc.env:DPO_TEST_TOKEN}\n"
         "  tokenizer_name_or_path: a${exp_name}\ndatasets: [\"${oc.env:DPO_TEST_TOKEN}\"]\n"
         "chat_template: ${oc.env:DPO_NOT_SET,secret}\n";
  EXPECT_EQ(read_run_config(run).values.model.name_or_path, "${oc.env:DPO_TEST_TOKEN}");
  const report::CardRun facts = read_keys(run, {});
  std::string shown = facts.base + " " + facts.command;
  for (const std::string& data : facts.data) shown += " " + data;
  for (const auto& [name, value] : facts.settings) shown += " " + name + "=" + value;
  EXPECT_EQ(shown.find("hf_secret"), shown.npos) << shown;
  EXPECT_NE(shown.find("${oc.env:DPO_TEST_TOKEN}"), shown.npos) << shown;
  ::unsetenv("DPO_TEST_TOKEN");
  std::filesystem::remove_all(run);
}

}  // namespace
}  // namespace dpo::commands
