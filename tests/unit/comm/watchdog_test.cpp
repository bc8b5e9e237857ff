#include "comm/watchdog.h"

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

// Ranks under a watchdog until they are done with `work`, which knows how many were told of a failure.
// Returns what each was told.
template <class Work>
std::vector<std::string> watch(int size, const Work& work) {
  ThreadWorld world(size);
  std::mutex mutex;
  std::vector<std::string> told(static_cast<std::size_t>(size));
  std::atomic<int> heard = 0;
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.emplace_back([&, rank] {
      ThreadGroup group(world, rank);
      Watchdog watchdog(group, {}, [&, rank](const RankFailure& failure) {
        const std::lock_guard lock(mutex);
        told[static_cast<std::size_t>(rank)] = describe(failure);
        ++heard;
      });
      work(rank, watchdog, heard);
      group.barrier();
    });
  ranks.clear();
  return told;
}

TEST(Watchdog, AGoodbyeIsNoFailure) {
  for (int round = 0; round < 5; ++round)
    EXPECT_EQ(watch(3, [](int, Watchdog&, const std::atomic<int>&) {}), std::vector<std::string>(3));
}

TEST(Watchdog, TellsAllRanksTheErrorOfOne) {
  const auto told = watch(3, [](int rank, Watchdog& watchdog, const std::atomic<int>& heard) {
    if (rank == 2) watchdog.fail("the data is bad", 2);
    for (int i = 0; i < 60'000 && heard < 3; ++i) std::this_thread::sleep_for(milliseconds(1));
  });
  for (const std::string& text : told)
    EXPECT_TRUE(text.starts_with("rank 2 (") && text.ends_with(") failed: the data is bad")) << text;
}

// Other ranks learn where rank 0 listens only after the stranger has sent its lines.
class Late : public ThreadGroup {
 public:
  Late(ThreadWorld& world, int rank, const std::atomic<bool>& nonsense_sent)
      : ThreadGroup(world, rank), nonsense_sent_(nonsense_sent) {}
  Work broadcast(const at::Tensor& tensor, int root) override {
    while (rank() != 0 && !nonsense_sent_) std::this_thread::sleep_for(milliseconds(1));
    return ThreadGroup::broadcast(tensor, root);
  }

 private:
  const std::atomic<bool>& nonsense_sent_;
};

void send_nonsense(std::uint16_t port, std::atomic<bool>& sent) {
  for (const std::string line :
       {"nonsense\n", "{\"kind\": 1}\n", "{\"kind\": \"hello\", \"token\": 5, \"rank\": 1}\n",
        "{\"kind\": \"hello\", \"token\": \"w\", \"rank\": {}}\n"}) {
    Descriptor socket;
    while (!socket.is_open()) socket = connect_to("127.0.0.1", port, milliseconds(100));
    EXPECT_EQ(::send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(line.size()));
  }
  sent = true;
}

TEST(Watchdog, IgnoresStrangers) {
  const std::uint16_t port = listen_on(std::nullopt).port;  // closed again, and free
  std::atomic<bool> sent = false;
  ThreadWorld world(2);
  std::vector<std::jthread> threads;
  threads.emplace_back([&] { send_nonsense(port, sent); });
  for (const int rank : {0, 1})
    threads.emplace_back([&, rank] {
      Late group(world, rank, sent);
      Watchdog watchdog(group, {.port = port},
                        [](const RankFailure& failure) { ADD_FAILURE() << describe(failure); });
      group.barrier();
    });
}

}  // namespace
}  // namespace dpo::comm
