#include "commands/run_facts.h"

#include <gtest/gtest.h>

namespace dpo::commands {
namespace {

TEST(WithoutFolders, KeepsNamesAndHidesFolders) {
  for (const char* name : {"hh", "pairs.jsonl", "org/name", "org/name@v1", "sft/LATEST"})
    EXPECT_EQ(without_folders(name), name);
  EXPECT_EQ(without_folders("/home/alice/pairs.jsonl"), "pairs.jsonl");
  EXPECT_EQ(without_folders("~/models/base/"), "base");
  EXPECT_EQ(without_folders("../base"), "base");
  EXPECT_EQ(without_folders("./base"), "base");
  EXPECT_EQ(without_folders(".cache/alice/sft_2026/LATEST"), "sft_2026/LATEST");
  EXPECT_EQ(without_folders("/runs/alice/sft/step-320"), "sft/step-320");
}

}  // namespace
}  // namespace dpo::commands
