#include "comm/watchdog.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/secret.h"
#include "comm/connection.h"
#include "comm/handshake.h"
#include "comm/sockets.h"

namespace dpo::comm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kHeartbeatInterval{1000};
constexpr milliseconds kGrace{500};           // delay before rank 0 acts on a reported failure
constexpr milliseconds kReportTimeout{5000};  // for a rank to report its failure
constexpr std::size_t kLongestError = 16'384;

// A rank as seen by another rank.
struct Peer {
  int rank = 0;
  std::string host;
  std::int64_t pid = 0;
  Connection connection;
  bool left = false;                        // it said goodbye
  std::optional<RankFailure> failure = {};  // failure that it reported

  RankFailure failed(std::string what) const { return {rank, host, pid, std::move(what)}; }
};

double seconds_of(milliseconds duration) { return std::chrono::duration<double>(duration).count(); }

Endpoint share_endpoint(Group& all, const ListeningSocket& listening, bool one_machine) {
  Endpoint own;
  if (all.rank() == 0)
    own = {one_machine ? std::vector<std::string>{kThisMachine} : own_addresses(), listening.port,
           make_token()};
  return parse_endpoint(broadcast_text(all, text_of(own), 0));
}

// Connects rank 0 to all others. Each other rank connects only to rank 0.
std::vector<Peer> connect_peers(Group& all, const WatchdogOptions& options) {
  const std::vector<std::string> hosts = gather_texts(all, host_name());
  const std::vector<std::string> pids = gather_texts(all, std::to_string(::getpid()));
  const auto peer = [&](int rank, Connection connection) {
    const auto i = static_cast<std::size_t>(rank);
    return Peer{
        .rank = rank, .host = hosts[i], .pid = std::stoll(pids[i]), .connection = std::move(connection)};
  };
  std::vector<Peer> peers;
  ListeningSocket listening;
  if (all.rank() == 0)
    listening = listen_on(options.port, options.one_machine ? Reach::this_machine : Reach::network);
  const Endpoint endpoint = share_endpoint(all, listening, options.one_machine);
  if (all.rank() != 0) {
    peers.push_back(peer(0, connect_to_rank_0(endpoint, all.rank())));
    return peers;
  }
  std::vector<Connection> connections = accept_ranks(listening, endpoint.token, all.size());
  for (int rank = 1; rank < all.size(); ++rank)
    peers.push_back(peer(rank, std::move(connections[static_cast<std::size_t>(rank)])));
  return peers;
}

}  // namespace

class Watchdog::Thread {
 public:
  Thread(Group& all, const WatchdogOptions& options, std::function<void(const RankFailure&)> on_failure)
      : rank_(all.rank()),
        options_(options),
        interval_(std::min({kHeartbeatInterval, options.timeout / 4, options.standstill.warn / 4})),
        on_failure_(std::move(on_failure)),
        peers_(connect_peers(all, options)),
        standstill_(all.size(), Clock::now()),
        wakeup_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        thread_([this] { work(); }) {}

  ~Thread() {
    request([this] { leaving_ = true; });
    thread_.join();
  }

  void fail(const std::string& error, int status) {
    request([&] {
      own_failure_ = {rank_, host_name(), ::getpid(), error.substr(0, kLongestError), /*reported=*/true,
                      status};
    });
    std::unique_lock lock(mutex_);
    ended_.wait_for(lock, kReportTimeout, [this] { return has_ended_; });
  }

 private:
  template <typename Change>
  void request(Change change) {
    const std::lock_guard lock(mutex_);
    change();
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wakeup_.get(), &one, sizeof one);
  }

  void work() {
    Clock::time_point checked = Clock::now();
    while (true) {
      wait_for_events();
      const Clock::time_point now = Clock::now();
      // Missing heartbeats prove nothing if this process was itself stopped, perhaps with the others.
      if (now - checked > 3 * interval_) {
        for (Peer& peer : peers_) peer.connection.reset_timeout(now);
        standstill_.restart(now);
      }
      checked = now;
      for (Peer& peer : peers_)
        for (const Message& message : peer.connection.receive()) handle(peer, message);
      if (leave_if_requested()) return;
      if (find_cause(now)) return end();
      if (now - last_heartbeat_ < interval_) continue;
      last_heartbeat_ = now;
      const Progress own = options_.progress();
      standstill_.update(rank_, own, now);
      send_to_all({.kind = Message::Kind::heartbeat, .progress = own});
    }
  }

  void wait_for_events() {
    std::vector<pollfd> all = {{wakeup_.get(), POLLIN, 0}};
    for (const Peer& peer : peers_)
      if (peer.connection.is_open()) all.push_back({peer.connection.descriptor(), POLLIN, 0});
    ::poll(all.data(), all.size(),
           static_cast<int>((failure_noticed_ ? std::min(interval_, kGrace / 4) : interval_).count()));
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t read = ::read(wakeup_.get(), &count, sizeof count);
  }

  void handle(Peer& peer, const Message& message) {
    if (message.kind == Message::Kind::heartbeat)
      standstill_.update(peer.rank, message.progress, peer.connection.last_received());
    if (message.kind == Message::Kind::goodbye) peer.left = true;
    if (message.kind == Message::Kind::failed) peer.failure = message.failure;
    if (message.kind == Message::Kind::abort) cause_ = message.failure;
  }

  bool leave_if_requested() {
    {
      const std::lock_guard lock(mutex_);
      if (!leaving_) return false;
    }
    send_to_all({.kind = Message::Kind::goodbye});
    return true;
  }

  void send_to_all(const Message& message) {
    for (Peer& peer : peers_)
      if (peer.connection.is_open()) peer.connection.send(message);
  }

  // Returns a peer that is gone without having reported a failure.
  std::optional<RankFailure> find_lost(Clock::time_point now) const {
    for (const Peer& peer : peers_) {
      if (peer.left || peer.failure) continue;
      if (!peer.connection.is_open())
        return peer.failed(
            "exited without reporting an error; was it killed, or did the machine run out of memory?");
      if (now - peer.connection.last_received() > options_.timeout)
        return peer.failed(
            fmt::format("sent no heartbeat for {:g} s (rank_timeout_secs); is it stopped, or the network "
                        "down?",
                        seconds_of(options_.timeout)));
    }
    return std::nullopt;
  }

  // Warns about a standstill and returns the rank that caused it once it has lasted too long. Only rank 0
  // does this, because it receives all heartbeats. If no rank waits for another, all may be in one long
  // operation, so the run continues.
  std::optional<RankFailure> find_stuck(Clock::time_point now) {
    if (rank_ != 0) return std::nullopt;
    const StandstillLimits& limits = options_.standstill;
    const milliseconds duration = standstill_.duration(now);
    if (duration < limits.warn) {
      if (std::exchange(standstill_noticed_, false)) options_.warn("the run makes progress again");
      return std::nullopt;
    }
    const std::vector<int> stuck = standstill_.stuck();
    if (!std::exchange(standstill_noticed_, true)) options_.warn(standstill_text(stuck));
    if (stuck.empty() || duration < limits.end) return std::nullopt;
    return stuck_failure(stuck, limits.end);
  }

  RankFailure stuck_failure(const std::vector<int>& stuck, milliseconds duration) const {
    const std::string others =
        stuck.size() == 1
            ? ""
            : fmt::format(", nor have ranks {}", fmt::join(stuck.begin() + 1, stuck.end(), ", "));
    std::string what = fmt::format(
        "has made no progress for {:g} s while other ranks wait for it{}; does its disk or GPU hang?",
        seconds_of(duration), others);
    if (stuck.front() == rank_) return {rank_, host_name(), ::getpid(), std::move(what)};
    return peers_[static_cast<std::size_t>(stuck.front() - 1)].failed(std::move(what));
  }

  std::string standstill_text(const std::vector<int>& stuck) const {
    const StandstillLimits& limits = options_.standstill;
    if (stuck.empty())
      return fmt::format(
          "no rank has made progress for {:g} s, and none waits for another; does a disk or the network "
          "hang?",
          seconds_of(limits.warn));
    return fmt::format("{} The run ends if this lasts {:g} s (30 times rank_timeout_secs)",
                       describe(stuck_failure(stuck, limits.warn)), seconds_of(limits.end));
  }

  // Returns a failure that a rank reported. This rank's own failure comes first and is sent to rank 0.
  std::optional<RankFailure> find_reported() {
    {
      const std::lock_guard lock(mutex_);
      if (own_failure_ && rank_ != 0 && !std::exchange(own_failure_sent_, true))
        peers_[0].connection.send({.kind = Message::Kind::failed, .failure = *own_failure_});
      if (own_failure_) return own_failure_;
    }
    for (const Peer& peer : peers_)
      if (peer.failure) return peer.failure;
    return std::nullopt;
  }

  // Returns whether the reason why the run ends is known. Only rank 0 decides between reported failures, and
  // only after a delay: a rank may fail because another one exited, or all fail for one reason and rank 0 is
  // about to report it too.
  bool find_cause(Clock::time_point now) {
    if (cause_) return true;
    const std::optional<RankFailure> reported = find_reported();
    cause_ = find_lost(now);
    if (!cause_) cause_ = find_stuck(now);
    if (cause_ || !reported || rank_ != 0) return cause_.has_value();
    if (!failure_noticed_) failure_noticed_ = now;
    if (now - *failure_noticed_ >= kGrace) cause_ = reported;
    return cause_.has_value();
  }

  void end() {
    if (rank_ == 0) send_to_all({.kind = Message::Kind::abort, .failure = *cause_});
    on_failure_(*cause_);
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    ended_.notify_all();
  }

  const int rank_;
  const WatchdogOptions options_;
  const milliseconds interval_;
  const std::function<void(const RankFailure&)> on_failure_;
  std::vector<Peer> peers_;  // on rank 0 all other ranks, in order; on the others only rank 0
  Standstill standstill_;
  bool standstill_noticed_ = false;
  std::optional<RankFailure> cause_;
  std::optional<Clock::time_point> failure_noticed_;
  Clock::time_point last_heartbeat_;
  bool own_failure_sent_ = false;

  std::mutex mutex_;
  std::condition_variable ended_;
  bool leaving_ = false, has_ended_ = false;
  std::optional<RankFailure> own_failure_;
  Descriptor wakeup_;
  std::thread thread_;
};

Watchdog::Watchdog(Group& all, const WatchdogOptions& options,
                   std::function<void(const RankFailure&)> on_failure) {
  if (all.size() > 1) thread_ = std::make_unique<Thread>(all, options, std::move(on_failure));
}

Watchdog::~Watchdog() = default;

void Watchdog::fail(const std::string& error, int status) {
  if (thread_) thread_->fail(error, status);
}

}  // namespace dpo::comm
