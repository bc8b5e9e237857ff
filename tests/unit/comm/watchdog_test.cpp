#include "comm/watchdog.h"

#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "comm/sockets.h"
#include "unit/comm/thread_group.h"

namespace dpo::comm {
namespace {

using std::chrono::milliseconds;

using OptionsOfRank = std::function<WatchdogOptions(int rank)>;

// Runs ranks under a watchdog until they are done with `work`, which gets the number of ranks that were told
// of a failure. Returns the message for each rank.
template <class Work>
std::vector<std::string> watch(
    int size, const Work& work, const OptionsOfRank& options = [](int) { return WatchdogOptions(); }) {
  ThreadWorld world(size);
  std::mutex mutex;
  std::vector<std::string> told(static_cast<std::size_t>(size));
  std::atomic<int> heard = 0;
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.emplace_back([&, rank] {
      ThreadGroup group(world, rank);
      Watchdog watchdog(group, options(rank), [&, rank](const RankFailure& failure) {
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

void wait_for(const std::function<bool()>& condition) {
  for (int i = 0; i < 60'000 && !condition(); ++i) std::this_thread::sleep_for(milliseconds(1));
}

// Collects the warnings of rank 0 from the watchdog's thread.
class Warnings {
 public:
  void add(const std::string& text) {
    const std::lock_guard lock(mutex_);
    all_ += text + "\n";
  }
  bool contain(const std::string& text) const { return all().find(text) != std::string::npos; }
  std::string all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  mutable std::mutex mutex_;
  std::string all_;
};

// Uses short limits. In these tests, no rank makes progress unless a test lets it.
WatchdogOptions impatient(Warnings& warnings, std::function<Progress()> progress) {
  return {.standstill = {.warn = milliseconds(100), .end = milliseconds(300)},
          .progress = std::move(progress),
          .warn = [&warnings](const std::string& text) { warnings.add(text); }};
}

TEST(Watchdog, ARankThatIsStuckWhileOthersWaitEndsTheRun) {
  for (const int stuck : {0, 2}) {
    Warnings warnings;
    const auto told = watch(
        3, [](int, Watchdog&, const std::atomic<int>& heard) { wait_for([&] { return heard == 3; }); },
        [&](int rank) { return impatient(warnings, [=] {
                          return Progress{7, rank == stuck ? 4u : 5u};
                        }); });
    const std::string name = "rank " + std::to_string(stuck) + " (";
    for (const std::string& text : told)
      EXPECT_TRUE(text.starts_with(name) &&
                  text.find("has made no progress for 0.3 s while other ranks wait for "
                            "it;") != std::string::npos)
          << text;
    EXPECT_TRUE(warnings.all().starts_with(name)) << warnings.all();
    EXPECT_TRUE(warnings.contain("The run ends if this lasts 0.3 s (30 times rank_timeout_secs)"));
  }
}

TEST(Watchdog, AStandstillWithoutAStuckRankIsAWarning) {
  Warnings warnings;
  std::atomic<std::uint64_t> parts = 0;
  const auto told = watch(
      3,
      [&](int rank, Watchdog&, const std::atomic<int>&) {
        if (rank != 1) return;
        wait_for([&] { return warnings.contain("no rank has made progress for 0.1 s, and none waits"); });
        std::this_thread::sleep_for(milliseconds(400));  // beyond the limit, which must not end the run
        ++parts;
        wait_for([&] { return warnings.contain("the run makes progress again"); });
      },
      [&](int rank) {
        return impatient(warnings, [&parts, rank] { return Progress{rank == 1 ? parts.load() : 0, 5}; });
      });
  EXPECT_EQ(told, std::vector<std::string>(3));
  EXPECT_TRUE(warnings.contain("the run makes progress again")) << warnings.all();
}

// Tells other ranks where rank 0 listens only after the stranger has sent its lines.
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
       {"nonsense\n", "{\"kind\": 1}\n", "{\"kind\": \"hello\", \"nonce\": 5, \"rank\": 1}\n",
        "{\"kind\": \"hello\", \"nonce\": \"w\", \"rank\": {}}\n"}) {
    Descriptor socket;
    while (!socket.is_open()) socket = connect_to("127.0.0.1", port, milliseconds(100));
    EXPECT_EQ(::send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(line.size()));
  }
  sent = true;
}

// Connects two ranks whose port strangers reach first.
void connect_after(const std::function<void(std::uint16_t port, std::atomic<bool>& sent)>& strangers) {
  const std::uint16_t port = listen_on(std::nullopt).port;  // closed again, so the port is free
  std::atomic<bool> sent = false;
  ThreadWorld world(2);
  std::vector<std::jthread> threads;
  threads.emplace_back([&] { strangers(port, sent); });
  for (const int rank : {0, 1})
    threads.emplace_back([&, rank] {
      Late group(world, rank, sent);
      Watchdog watchdog(group, {.port = port},
                        [](const RankFailure& failure) { ADD_FAILURE() << describe(failure); });
      group.barrier();
    });
}

TEST(Watchdog, IgnoresStrangers) { connect_after(send_nonsense); }

TEST(Watchdog, SilentStrangersDoNotStopAStart) {
  std::vector<Descriptor> silent;
  connect_after([&](std::uint16_t port, std::atomic<bool>& sent) {
    while (silent.size() < 12) {
      Descriptor socket = connect_to("127.0.0.1", port, milliseconds(100));
      if (socket.is_open()) silent.push_back(std::move(socket));
    }
    sent = true;
  });
}

}  // namespace
}  // namespace dpo::comm
