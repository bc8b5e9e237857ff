#include "run/folder_claim.h"

#include <fstream>
#include <optional>

#include <gtest/gtest.h>

#include "base/error.h"

namespace dpo::run {
namespace {

namespace fs = std::filesystem;

class Claims : public testing::Test {
 protected:
  Claims() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Claims() override { fs::remove_all(folder_); }

  static std::string refusal(const fs::path& path) {
    try {
      const FolderClaim claim(path);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }

  const fs::path folder_ = fs::canonical(testing::TempDir()) / "dpo_folder_claim";
};

TEST_F(Claims, RemoveWhatTheyMade) {
  { const FolderClaim claim(folder_ / "a" / "b/"); }
  EXPECT_FALSE(fs::exists(folder_ / "a"));
  {
    const FolderClaim claim(folder_ / "a" / "b");
    std::ofstream(folder_ / "a" / "mine") << "x";
  }
  EXPECT_FALSE(fs::exists(folder_ / "a" / "b"));
  EXPECT_TRUE(fs::exists(folder_ / "a" / "mine"));
  { const FolderClaim claim(folder_ / "a"); }
  EXPECT_TRUE(fs::exists(folder_ / "a")) << "it was there before";
  EXPECT_FALSE(fs::exists(folder_ / "a" / ".lock"));
  FolderClaim(folder_ / "kept").keep();
  EXPECT_TRUE(fs::exists(folder_ / "kept" / ".lock"));
}

TEST_F(Claims, AreOfOneProcessAtATime) {
  std::optional<FolderClaim> first(folder_ / "run");
  EXPECT_EQ(refusal(folder_ / "run"),
            (folder_ / "run").string() + ": another process is writing to this run");
  FolderClaim moved(std::move(*first));
  first.reset();
  EXPECT_NE(refusal(folder_ / "run"), "");
  EXPECT_TRUE(fs::exists(folder_ / "run" / ".lock")) << "the refused one removed nothing";
}

TEST_F(Claims, AreNumbered) {
  const FolderClaim a = FolderClaim::numbered(folder_ / "new" / "run"),
                    b = FolderClaim::numbered(folder_ / "new" / "run"),
                    c = FolderClaim::numbered(folder_ / "new" / "run");
  EXPECT_EQ(a.path(), folder_ / "new" / "run");
  EXPECT_EQ(b.path(), folder_ / "new" / "run-2");
  EXPECT_EQ(c.path(), folder_ / "new" / "run-3");
}

TEST_F(Claims, ReplaceTheFolderBehindALink) {
  fs::create_directories(folder_ / "disk" / "run");
  std::ofstream(folder_ / "disk" / "run" / "old") << "x";
  fs::create_symlink("disk/run", folder_ / "link");
  {
    FolderClaim claim(folder_ / "link");
    EXPECT_EQ(claim.replace(), folder_ / "disk" / "run.old-1");
    EXPECT_NE(refusal(folder_ / "disk" / "run"), "") << "the new folder is locked";
    EXPECT_EQ(refusal(folder_ / "disk" / "run.old-1"), "");
  }
  EXPECT_EQ(fs::read_symlink(folder_ / "link"), "disk/run");
  EXPECT_TRUE(fs::exists(folder_ / "disk" / "run.old-1" / "old"));
  EXPECT_TRUE(fs::exists(folder_ / "disk" / "run"));
  EXPECT_FALSE(fs::exists(folder_ / "disk" / "run" / "old"));
}

TEST_F(Claims, OfAFolderThatWasReplacedAreRefused) {
  const RunLock lock(folder_);
  fs::remove(folder_ / ".lock");  // as the process with the lock does when it gives up
  const RunLock next(folder_);
  EXPECT_NE(refusal(folder_), "");
}

}  // namespace
}  // namespace dpo::run
