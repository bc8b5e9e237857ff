#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "hub/content_hash.h"
#include "hub/partial_file.h"

namespace dpo::hub {
namespace {

namespace fs = std::filesystem;

// echo hello | git hash-object --stdin; echo hello | sha256sum
constexpr const char* kHello = "hello\n";
constexpr const char* kGitSum = "ce013625030ba8dba906f756967f9e9ca394464a";
constexpr const char* kSha256Sum = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";

TEST(ContentHash, IsGitsOrSha256) {
  for (const char* expected : {kGitSum, kSha256Sum}) {
    ContentHash hash(expected, 6);
    hash.add("hel");
    hash.add("lo\n");
    EXPECT_TRUE(hash.matches());
    hash.restart();
    hash.add("hallo\n");
    EXPECT_FALSE(hash.matches());
  }
}

class Partial : public testing::Test {
 protected:
  Partial() : folder_(fs::path(testing::TempDir()) / "dpo_hub_partial_test") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Partial() override { fs::remove_all(folder_); }
  fs::path path() const { return folder_ / "x.incomplete"; }
  fs::path folder_;
};

TEST_F(Partial, Continues) {
  { PartialFile(path(), kSha256Sum, 6).append("hel"); }
  PartialFile file(path(), kSha256Sum, 6);
  EXPECT_EQ(file.size(), 3);
  file.append("lo\n");
  EXPECT_TRUE(file.matches());
  file.rename_to(folder_ / "x");
  EXPECT_EQ(read_text_file(folder_ / "x", "test"), kHello);
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(Partial, StartsOverIfItIsTooLong) {
  std::ofstream(path()) << "something else";
  PartialFile file(path(), kGitSum, 6);
  EXPECT_EQ(file.size(), 0);
  file.append(kHello);
  EXPECT_TRUE(file.matches());
}

TEST_F(Partial, ThatCannotBeWrittenSaysWhatToDo) {
  try {
    PartialFile(folder_ / "no" / "x", kGitSum, 6);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("HF_HUB_CACHE=DIR"), std::string::npos);
  }
  PartialFile full("/dev/full", kGitSum, 6);
  try {
    full.append("hel");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("No space left on device; what was downloaded is kept"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace dpo::hub
