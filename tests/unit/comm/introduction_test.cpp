#include "comm/introduction.h"

#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "unit/comm/thread_group.h"

namespace dpo::comm {
namespace {

Introduction introduction_of(const std::string& host) {
  return {.host = host,
          .program = "dpo 1",
          .command = "dpo train",
          .keys = {{"eval_every", "40"}, {"lr", "0.1"}}};
}

using Problems = std::vector<std::string>;

TEST(Introduction, EqualRanksAgree) {
  EXPECT_EQ(disagreements({introduction_of("a")}), Problems());
  EXPECT_EQ(disagreements({introduction_of("a"), introduction_of("a"), introduction_of("b")}), Problems());
}

TEST(Introduction, NamesKeyValuesRankAndHost) {
  Introduction other = introduction_of("b");
  other.keys["eval_every"] = "20";
  EXPECT_EQ(
      disagreements({introduction_of("a"), introduction_of("a"), other}),
      Problems{"eval_every is 20 on rank 2 (host b), but 40 on rank 0 (host a); give every rank the same "
               "configuration"});
  other.keys.erase("lr");
  other.keys["loss.alpha"] = "1";
  EXPECT_EQ(
      disagreements({introduction_of("a"), other, other}),
      (Problems{"eval_every is 20 on rank 1 (host b), but 40 on rank 0 (host a)",
                "loss.alpha is 1 on rank 1 (host b), but not set on rank 0 (host a)",
                "lr is not set on rank 1 (host b), but 0.1 on rank 0 (host a); give every rank the same "
                "configuration"}));
}

TEST(Introduction, AnotherVersionOrCommandComesFirst) {
  Introduction other = introduction_of("b");
  other.keys.clear();
  other.command = "dpo bench train --updates 5";
  EXPECT_EQ(
      disagreements({introduction_of("a"), other}),
      Problems{"rank 1 (host b) was started for 'dpo bench train --updates 5', but rank 0 (host a) for 'dpo "
               "train'; all ranks of a run need the same command"});
  other.program = "dpo 2";
  EXPECT_EQ(disagreements({introduction_of("a"), other}),
            Problems{"rank 1 (host b) is dpo 2, but rank 0 (host a) is dpo 1; install the same dpo on every "
                     "machine"});
}

TEST(Introduction, ARankWithoutAGpuIsNamed) {
  Introduction with = introduction_of("a");
  with.has_gpu = true;
  const std::string advice = "; check the driver there (nvidia-smi) and CUDA_VISIBLE_DEVICES";
  EXPECT_EQ(disagreements({with, introduction_of("b")}),
            Problems{"rank 1 (host b) sees no GPU, but rank 0 (host a) does" + advice});
  EXPECT_EQ(disagreements({introduction_of("b"), with}),
            Problems{"rank 0 (host b) sees no GPU, but rank 1 (host a) does" + advice});
}

TEST(Introduction, AProblemOfAllIsReportedOnceAndOfOneWithItsRank) {
  Introduction bad = introduction_of("b");
  bad.keys.clear();
  bad.problem = "lrr: unknown key";
  EXPECT_EQ(disagreements({bad, bad}), Problems{"lrr: unknown key"});
  EXPECT_EQ(disagreements({introduction_of("a"), bad}), Problems{"rank 1 (host b): lrr: unknown key"});
  EXPECT_EQ(disagreements({bad, introduction_of("a")}), Problems{"rank 0 (host b): lrr: unknown key"});
}

TEST(Introduction, ReachesAllRanks) {
  ThreadWorld world(3);
  std::mutex mutex;
  std::vector<Problems> found;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      ThreadGroup group(world, i);
      Introduction own = introduction_of("host \xff \"" + std::to_string(i));
      own.keys["seed"] = i == 2 ? "1" : "0";
      const std::vector<Introduction> ranks = introduce(group, own);
      const std::lock_guard lock(mutex);
      found.push_back(disagreements(ranks));
    });
  threads.clear();
  EXPECT_EQ(found,
            std::vector<Problems>(3, Problems{"seed is 1 on rank 2 (host host \uFFFD \"2), but 0 on rank 0 "
                                              "(host host \uFFFD \"0); give every rank the same "
                                              "configuration"}));
}

}  // namespace
}  // namespace dpo::comm
