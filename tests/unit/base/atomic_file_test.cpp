#include "base/atomic_file.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace dpo {
namespace {

namespace fs = std::filesystem;

TEST(AtomicFile, MadeByManyThreadsHasTheUsualPermissions) {
  const fs::path folder = fs::path(testing::TempDir()) / "dpo_atomic_file_test";
  fs::create_directories(folder);
  const mode_t before = umask(027);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 2000; ++i) AtomicFile file(folder / std::to_string(thread));
    });
  threads.clear();
  AtomicFile(folder / "file").commit();
  EXPECT_EQ(umask(before), 027u) << "a thread restored what another had set for a moment";
  EXPECT_EQ(static_cast<unsigned>(fs::status(folder / "file").permissions()), 0640u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1) << "what was not committed is gone";
  fs::remove_all(folder);
}

}  // namespace
}  // namespace dpo
