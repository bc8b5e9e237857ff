#include "base/progress_count.h"

#include <gtest/gtest.h>

#include "base/parallel.h"
#include "base/sha256.h"

namespace dpo {
namespace {

TEST(ProgressCount, CountsCalls) {
  const std::uint64_t before = progress_count();
  count_progress();
  count_progress();
  EXPECT_EQ(progress_count(), before + 2);
}

TEST(ProgressCount, RisesWhileTheUserIsWrittenTo) {
  const std::uint64_t before = progress_count();
  {
    const WaitingForOthers waiting;
    EXPECT_EQ(progress_count(), before + 1);
    EXPECT_EQ(progress_count(), before + 2);
  }
  EXPECT_EQ(progress_count(), before + 2);
}

TEST(ProgressCount, HashesAndParallelWorkCount) {
  std::uint64_t before = progress_count();
  Sha256().add("text");
  EXPECT_GT(progress_count(), before);
  before = progress_count();
  for_each_parallel(
      100, [](std::size_t) {}, 2, 10);
  EXPECT_EQ(progress_count(), before + 10);
}

}  // namespace
}  // namespace dpo
