#include "hub/cache.h"

#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

namespace dpo::hub {
namespace {

namespace fs = std::filesystem;

class Cache : public testing::Test {
 protected:
  Cache() : folder_(fs::path(testing::TempDir()) / "dpo_hub_cache_test") {
    fs::create_directories(folder_);
    setenv("HF_HUB_CACHE", folder_.c_str(), 1);
  }
  ~Cache() override {
    unsetenv("HF_HUB_CACHE");
    fs::remove_all(folder_);
  }

  void write(const fs::path& path, const std::string& text) const {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }

  fs::path folder_;
  const std::string commit_ = std::string(40, 'a');
};

TEST_F(Cache, HoldsModelsAndDataSetsSideBySide) {
  write("datasets--Anthropic--hh-rlhf/refs/main", commit_);
  write("datasets--Anthropic--hh-rlhf/snapshots/" + commit_ + "/x", "");
  const auto found = cached_snapshot(RepositoryKind::Dataset, "Anthropic/hh-rlhf");
  EXPECT_EQ(found, folder_ / "datasets--Anthropic--hh-rlhf/snapshots" / commit_);
  EXPECT_FALSE(cached_snapshot(RepositoryKind::Model, "Anthropic/hh-rlhf"));
}

TEST_F(Cache, DoesNotFollowARefThatIsNoCommit) {
  write("models--a--b/refs/main", "../../..");
  EXPECT_FALSE(cached_snapshot(RepositoryKind::Model, "a/b"));
  write("models--a--b/refs/main", "");
  EXPECT_FALSE(cached_snapshot(RepositoryKind::Model, "a/b"));
  write("models--a--b/refs/main", commit_);  // whose files are not there
  EXPECT_FALSE(cached_snapshot(RepositoryKind::Model, "a/b"));
}

TEST_F(Cache, KnowsWhatANameIs) {
  for (const char* name : {"gpt2", "EleutherAI/pythia-2.8b", "a_b/c.d"})
    EXPECT_TRUE(is_repository_name(name)) << name;
  for (const char* name : {"", "/a", "a/", "a/b/c", "a/../b", "a b", "a--b/c"})
    EXPECT_FALSE(is_repository_name(name)) << name;
  EXPECT_FALSE(is_repository_name(std::string(97, 'a')));
}

TEST_F(Cache, TellsNamesOfTheHubFromFiles) {
  for (const char* name : {"gpt2", "EleutherAI/pythia-2.8b", "meta-llama/Llama-3.1-8B"})
    EXPECT_TRUE(may_be_on_the_hub(name)) << name;
  for (const char* name :
       {"nosuch.json", "my/pairs.jsonl", "policy.pt", "./model", "../model", "/a/b", "a/b/c"})
    EXPECT_FALSE(may_be_on_the_hub(name)) << name;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::create_directories(folder_ / "runs");
  std::filesystem::current_path(folder_);
  EXPECT_FALSE(may_be_on_the_hub("runs/sft"));  // a folder of this machine
  std::filesystem::current_path(before);
}

TEST_F(Cache, IsWhereTheVariablesSay) {
  EXPECT_EQ(cache_folder(), folder_);
  unsetenv("HF_HUB_CACHE");
  setenv("HF_HOME", "/h", 1);
  EXPECT_EQ(cache_folder(), "/h/hub");
  unsetenv("HF_HOME");
}

TEST(FetchCommand, NamesTheKindAndTheFiles) {
  EXPECT_EQ(fetch_command(RepositoryKind::Dataset, "a/b"), "hf download --repo-type dataset a/b");
  EXPECT_EQ(fetch_command(RepositoryKind::Model, "a/b", "config.json"), "hf download a/b config.json");
}

}  // namespace
}  // namespace dpo::hub
