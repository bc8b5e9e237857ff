#include "base/file_lock.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

namespace dpo {
namespace {

namespace fs = std::filesystem;

// Locks of one process conflict like those of two, because they belong to descriptors.
class FileLocks : public testing::Test {
 protected:
  ~FileLocks() override { fs::remove(path_); }

  const fs::path path_ = fs::path(testing::TempDir()) / fmt::format("lock-{}", ::getpid());
};

TEST_F(FileLocks, AreExclusiveOrShared) {
  {
    const FileLock exclusive(path_, FileLock::Kind::exclusive);
    EXPECT_TRUE(fs::exists(path_));
    EXPECT_FALSE(FileLock::try_exclusive(path_));
  }
  EXPECT_TRUE(FileLock::try_exclusive(path_));
  const FileLock one(path_, FileLock::Kind::shared), two(path_, FileLock::Kind::shared);
  EXPECT_FALSE(FileLock::try_exclusive(path_));
}

TEST_F(FileLocks, AreNothingWithoutAFile) {
  const FileLock shared(path_, FileLock::Kind::shared);
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_TRUE(FileLock::try_exclusive(path_));
  EXPECT_FALSE(fs::exists(path_));
}

// A process that waited for a file that was removed meanwhile must lock the new one.
TEST_F(FileLocks, AreOfTheFileThatIsThereNow) {
  std::optional<FileLock> old(std::in_place, path_, FileLock::Kind::exclusive);
  std::atomic<bool> locked = false;
  std::thread waiting([&] {
    const FileLock own(path_, FileLock::Kind::exclusive);
    EXPECT_FALSE(FileLock::try_exclusive(path_));
    locked = true;
  });
  EXPECT_FALSE(locked);
  fs::remove(path_);
  old.reset();
  waiting.join();
  EXPECT_TRUE(locked);
  EXPECT_TRUE(fs::exists(path_));
}

TEST_F(FileLocks, DoNotFollowLinks) {
  const fs::path target = fs::path(path_) += "-target";
  fs::create_symlink(target, path_);
  const FileLock lock(path_, FileLock::Kind::exclusive);
  EXPECT_FALSE(fs::exists(target));
}

}  // namespace
}  // namespace dpo
