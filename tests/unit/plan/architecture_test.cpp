#include "plan/architecture.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"

namespace dpo::plan {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig =
    R"({"model_type":"gpt2","n_layer":3,"n_embd":8,"n_head":2,"vocab_size":9,"n_positions":4})";

class Architectures : public testing::Test {
 protected:
  Architectures() : folder_(fs::path(testing::TempDir()) / "dpo_architecture_test") {
    fs::create_directories(folder_);
    setenv("HF_HUB_CACHE", folder_.c_str(), 1);
  }
  ~Architectures() override {
    unsetenv("HF_HUB_CACHE");
    fs::remove_all(folder_);
  }

  static void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

  fs::path folder_;
};

TEST_F(Architectures, ComeFromAFolder) {
  write(folder_ / "model" / "config.json", kConfig);
  EXPECT_EQ(find_architecture((folder_ / "model").string()).shape.layers, 3);
}

TEST_F(Architectures, ComeFromTheCacheBeforeTheShippedOnes) {
  const std::string commit(40, 'a');
  write(folder_ / "models--gpt2" / "refs" / "main", commit);
  write(folder_ / "models--gpt2" / "snapshots" / commit / "config.json", kConfig);
  EXPECT_EQ(find_architecture("gpt2").shape.layers, 3);
}

TEST_F(Architectures, AreShippedForKnownModels) {
  const Architecture gpt2 = find_architecture("gpt2");
  EXPECT_EQ(gpt2.shape.layers, 12);
  EXPECT_EQ(gpt2.origin, "configs/architecture/gpt2.json");
  EXPECT_EQ(find_architecture("EleutherAI/pythia-2.8b").shape.hidden, 2560);
}

TEST_F(Architectures, ARefThatIsNoCommitIsNotFollowed) {
  write(folder_ / "models--gpt2" / "refs" / "main", "../../../etc");
  EXPECT_EQ(find_architecture("gpt2").shape.layers, 12);
}

TEST_F(Architectures, ThatAreUnknownSayWhereWasLooked) {
  try {
    find_architecture("EleutherAI/pyhtia-2.8b");
    FAIL();
  } catch (const UserError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("model.name_or_path: 'EleutherAI/pyhtia-2.8b' not found"), std::string::npos);
    EXPECT_NE(message.find(folder_.string()), std::string::npos);
    EXPECT_NE(message.find("did you mean 'EleutherAI/pythia-2.8b'?"), std::string::npos);
  }
  EXPECT_THROW(find_architecture(folder_.string()), UserError);  // a folder without config.json
  EXPECT_THROW(find_architecture(""), UserError);
  EXPECT_THROW(find_architecture(std::string(10'000, 'x')), UserError);
}

}  // namespace
}  // namespace dpo::plan
