#include "comm/watch.h"

#include <sys/socket.h>

#include <atomic>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "comm/sockets.h"
#include "unit/comm/thread_group.h"

namespace dpo::comm {
namespace {

using std::chrono::milliseconds;

// Ranks that watch each other until they are done with `work`, which knows how many were told of a loss; what
// each was told.
template <class Work>
std::vector<std::string> watch(int size, const Work& work) {
  Meeting meeting(size);
  std::mutex mutex;
  std::vector<std::string> told(static_cast<std::size_t>(size));
  std::atomic<int> heard = 0;
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.emplace_back([&, rank] {
      ThreadGroup group(meeting, rank);
      Watch watch(group, {}, [&, rank](const Loss& loss) {
        const std::lock_guard lock(mutex);
        told[static_cast<std::size_t>(rank)] = describe(loss);
        ++heard;
      });
      work(rank, watch, heard);
      group.barrier();
    });
  ranks.clear();
  return told;
}

TEST(Watch, MissesNobodyWhoSaysGoodbye) {
  for (int round = 0; round < 5; ++round)
    EXPECT_EQ(watch(3, [](int, Watch&, const std::atomic<int>&) {}), std::vector<std::string>(3));
}

TEST(Watch, TellsAllRanksTheLastWordsOfOne) {
  const auto told = watch(3, [](int rank, Watch& watch, const std::atomic<int>& heard) {
    if (rank == 2) watch.fail("the data is not to my liking", 2);
    for (int i = 0; i < 60'000 && heard < 3; ++i) std::this_thread::sleep_for(milliseconds(1));
  });
  for (const std::string& words : told)
    EXPECT_TRUE(words.starts_with("rank 2 (") && words.ends_with(") failed: the data is not to my liking"))
        << words;
}

// Waits in its first exchange of texts after the door is open until a stranger has been there.
class Late : public ThreadGroup {
 public:
  Late(Meeting& meeting, int rank, const std::atomic<bool>& was_there)
      : ThreadGroup(meeting, rank), was_there_(was_there) {}
  Pending broadcast(const at::Tensor& tensor, int root) override {
    while (rank() != 0 && !was_there_) std::this_thread::sleep_for(milliseconds(1));
    return ThreadGroup::broadcast(tensor, root);
  }

 private:
  const std::atomic<bool>& was_there_;
};

void send_nonsense(std::uint16_t port, std::atomic<bool>& was_there) {
  for (const std::string line :
       {"nonsense\n", "{\"kind\": 1}\n", "{\"kind\": \"hello\", \"word\": 5, \"rank\": 1}\n",
        "{\"kind\": \"hello\", \"word\": \"w\", \"rank\": {}}\n"}) {
    Descriptor line_to_first;
    while (!line_to_first.is_open()) line_to_first = connect_to("127.0.0.1", port, milliseconds(100));
    EXPECT_EQ(::send(line_to_first.get(), line.data(), line.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(line.size()));
  }
  was_there = true;
}

TEST(Watch, IsNotDisturbedByAStranger) {
  const std::uint16_t port = open_door(std::nullopt).port;  // closed again, and free
  std::atomic<bool> was_there = false;
  Meeting meeting(2);
  std::vector<std::jthread> threads;
  threads.emplace_back([&] { send_nonsense(port, was_there); });
  for (const int rank : {0, 1})
    threads.emplace_back([&, rank] {
      Late group(meeting, rank, was_there);
      Watch watch(group, {.port = port}, [](const Loss& loss) { ADD_FAILURE() << describe(loss); });
      group.barrier();
    });
}

}  // namespace
}  // namespace dpo::comm
