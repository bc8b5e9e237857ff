#include "comm/standstill.h"

#include <gtest/gtest.h>

namespace dpo::comm {
namespace {

using namespace std::chrono_literals;

constexpr Standstill::Time kStart{};

// Returns three ranks that have begun four operations each.
Standstill three_ranks() {
  Standstill ranks(3, kStart);
  for (int rank = 0; rank < 3; ++rank) ranks.update(rank, {.parts = 10, .collectives = 4}, kStart);
  return ranks;
}

TEST(Standstill, LimitsFollowFromTheTimeoutOfARank) {
  EXPECT_EQ(standstill_limits(60s).warn, 5min);
  EXPECT_EQ(standstill_limits(60s).end, 30min);
  EXPECT_EQ(nccl_timeout(60s), 1h);
  EXPECT_EQ(nccl_timeout(10s), 10min);
  for (const std::chrono::milliseconds timeout : {1s, 60s, 86400s}) {
    EXPECT_LT(timeout, standstill_limits(timeout).warn);
    EXPECT_LT(standstill_limits(timeout).end, nccl_timeout(timeout)) << "the watchdog comes first";
  }
}

TEST(Standstill, ARankThatOthersWaitForIsStuck) {
  Standstill ranks = three_ranks();
  ranks.update(0, {11, 5}, kStart + 1s);
  ranks.update(2, {12, 5}, kStart + 2s);
  EXPECT_EQ(ranks.duration(kStart + 2s), 0ms);
  EXPECT_EQ(ranks.duration(kStart + 62s), 1min);
  EXPECT_EQ(ranks.stuck(), std::vector<int>{1});
}

TEST(Standstill, ALongOperationOfTheRankThatOthersWaitForIsProgress) {
  Standstill ranks = three_ranks();
  ranks.update(1, {10, 5}, kStart + 1s);  // waits in a barrier, like rank 2
  ranks.update(2, {10, 5}, kStart + 1s);
  Standstill::Time now = kStart;
  for (std::uint64_t hour = 1; hour < 48; ++hour) {
    now = kStart + std::chrono::hours(hour);
    ranks.update(0, {10 + hour, 4}, now);  // tokenizes
    EXPECT_EQ(ranks.duration(now), 0ms);
  }
  EXPECT_EQ(ranks.duration(now + 1h), 1h);
}

// Ranks 2 and 3 wait for the lock of a file that rank 1 writes; rank 0 waits for them all.
TEST(Standstill, ARankThatWaitsForABusyOneIsNotStuck) {
  Standstill ranks(4, kStart);
  ranks.update(0, {0, 3}, kStart + 1s);
  for (int rank = 1; rank < 4; ++rank) ranks.update(rank, {0, 2}, kStart + 1s);
  ranks.update(1, {1, 2}, kStart + 1h);
  EXPECT_EQ(ranks.duration(kStart + 1h), 0ms);
  EXPECT_EQ(ranks.stuck(), (std::vector<int>{1, 2, 3}));
}

// Rank 2 waits for rank 3 in an operation of their own, ranks 0 and 1 for rank 2.
TEST(Standstill, OfSeveralThatWaitTheFirstCauseIsNamed) {
  Standstill ranks(4, kStart);
  ranks.update(0, {0, 9}, kStart);
  ranks.update(1, {0, 9}, kStart);
  ranks.update(2, {0, 8}, kStart);
  ranks.update(3, {0, 7}, kStart);
  EXPECT_EQ(ranks.stuck(), std::vector<int>{3});
}

TEST(Standstill, NobodyIsStuckWhereAllAreInTheSameOperation) {
  const Standstill ranks = three_ranks();
  EXPECT_EQ(ranks.duration(kStart + 2h), 2h);
  EXPECT_TRUE(ranks.stuck().empty());
}

TEST(Standstill, TimeInWhichThisProcessDidNotRunDoesNotCount) {
  Standstill ranks = three_ranks();
  ranks.restart(kStart + 5h);
  EXPECT_EQ(ranks.duration(kStart + 5h), 0ms);
}

}  // namespace
}  // namespace dpo::comm
