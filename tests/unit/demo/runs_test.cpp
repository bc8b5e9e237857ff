#include "demo/runs.h"

#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"

namespace dpo::demo {
namespace {

namespace fs = std::filesystem;

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

TEST(Arguments, QuoteAFolderThatNeedsIt) {
  EXPECT_TRUE(contains(sft_arguments("demo"), "datasets=[demo/conversations]"));
  EXPECT_TRUE(contains(sft_arguments("a, b"), "datasets=['a, b/conversations']"));
  for (const bool lora : {false, true}) {
    EXPECT_TRUE(contains(dpo_arguments("demo", lora), "model.archive=demo/sft/LATEST"));
    EXPECT_EQ(contains(dpo_arguments("demo", lora), "adapter=lora"), lora);
  }
}

class Folder : public testing::Test {
 protected:
  Folder() : path_(fs::path(testing::TempDir()) / "dpo_demo_claim") { fs::remove_all(path_); }
  ~Folder() override { fs::remove_all(path_); }

  const fs::path path_;
};

TEST_F(Folder, IsMadeAndMadeAgain) {
  claim_folder(path_);
  fs::create_directories(path_ / "sft");
  std::ofstream(path_ / "sft" / "old") << "old";
  std::ofstream(path_ / "mine.txt") << "mine";
  claim_folder(path_);
  EXPECT_FALSE(fs::exists(path_ / "sft"));
  EXPECT_TRUE(fs::exists(path_ / "mine.txt"));
}

TEST_F(Folder, OfSomeoneElseIsRefused) {
  fs::create_directories(path_ / "sft");
  EXPECT_THROW(claim_folder(path_), UserError);
  EXPECT_TRUE(fs::exists(path_ / "sft"));
  EXPECT_THROW(claim_folder("/proc/nothing"), UserError);
  EXPECT_THROW(claim_folder("it's"), UserError);
}

}  // namespace
}  // namespace dpo::demo
