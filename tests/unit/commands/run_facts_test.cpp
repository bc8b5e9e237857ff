#include "commands/run_facts.h"

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

}  // namespace
}  // namespace dpo::commands
