#include "comm/watchdog.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "comm/sockets.h"

namespace dpo::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kHeartbeatInterval{1000};
constexpr milliseconds kGrace{500};              // before rank 0 acts on a reported failure
constexpr milliseconds kReportTimeout{5000};     // for a rank that reports its failure
constexpr milliseconds kConnectTimeout{60'000};  // at the start
constexpr std::size_t kLongestError = 16'384;

// A connection to another rank.
class Connection {
 public:
  explicit Connection(Descriptor socket = Descriptor()) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.get(); }
  bool is_open() const { return socket_.is_open(); }
  Clock::time_point last_received() const { return last_received_; }
  void reset_timeout(Clock::time_point now) { last_received_ = now; }
  void close() { socket_.close(); }

  // Dropped if the send buffer is full: a rank that has not read for so long has failed anyway.
  void send(const Message& message) {
    const std::string text = line_of(message);
    [[maybe_unused]] const ssize_t sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }

  // All messages that have arrived. Closes the connection if the other end did.
  std::vector<Message> receive() {
    std::array<char, 4096> bytes;
    std::vector<Message> messages;
    while (is_open()) {
      const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
      if (count > 0) {
        last_received_ = Clock::now();
        for (Message& message : reader_.add({bytes.data(), static_cast<std::size_t>(count)}))
          messages.push_back(std::move(message));
      } else if (count < 0 && errno == EINTR) {
        continue;
      } else if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        break;
      } else {
        socket_.close();
      }
    }
    return messages;
  }

 private:
  Descriptor socket_;
  MessageReader reader_;
  Clock::time_point last_received_ = Clock::now();
};

// A rank as another one sees it.
struct Peer {
  int rank = 0;
  std::string host;
  std::int64_t pid = 0;
  Connection connection;
  bool left = false;                        // said goodbye
  std::optional<RankFailure> failure = {};  // that it reported

  RankFailure failed(std::string what) const { return {rank, host, pid, std::move(what)}; }
};

void wait_until_readable(int descriptor, milliseconds timeout) {
  pollfd waiting{descriptor, POLLIN, 0};
  ::poll(&waiting, 1, static_cast<int>(timeout.count()));
}

// The first message, if it arrives in time.
std::optional<Message> first_message(Connection& from, milliseconds timeout) {
  for (const Clock::time_point end = Clock::now() + timeout; from.is_open() && Clock::now() < end;) {
    wait_until_readable(from.descriptor(), milliseconds(100));
    const std::vector<Message> messages = from.receive();
    if (!messages.empty()) return messages.front();
  }
  return std::nullopt;
}

Endpoint share_endpoint(Group& all, const ListeningSocket& listening) {
  Endpoint own;
  if (all.rank() == 0) own = {own_addresses(), listening.port, std::to_string(std::random_device()())};
  return parse_endpoint(broadcast_text(all, text_of(own), 0));
}

// Tries all addresses until one answers with the token: on another network the same address and port may be
// another program.
Connection connect_to_rank_0(const Endpoint& endpoint, int rank) {
  for (const std::string& address : endpoint.addresses) {
    Connection connection(connect_to(address, endpoint.port, milliseconds(3000)));
    if (!connection.is_open()) continue;
    connection.send({.kind = Message::Kind::hello, .token = endpoint.token, .rank = rank});
    const auto answer = first_message(connection, milliseconds(10'000));
    if (answer && answer->kind == Message::Kind::welcome && answer->token == endpoint.token)
      return connection;
  }
  std::ostringstream tried;
  for (const std::string& address : endpoint.addresses) tried << ' ' << address << ':' << endpoint.port;
  throw UserError(fmt::format("rank {} (host {}) cannot reach rank 0; tried{}. Is there a firewall?", rank,
                              host_name(), tried.str()));
}

// The next rank that knows the token, and its connection, if any.
std::optional<std::pair<int, Connection>> accept_rank(const ListeningSocket& listening,
                                                      const Endpoint& endpoint) {
  wait_until_readable(listening.socket.get(), milliseconds(100));
  Connection connection(
      Descriptor(::accept4(listening.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)));
  if (!connection.is_open()) return std::nullopt;
  const int on = 1;
  ::setsockopt(connection.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const auto hello = first_message(connection, milliseconds(5000));
  if (!hello || hello->kind != Message::Kind::hello || hello->token != endpoint.token) return std::nullopt;
  connection.send({.kind = Message::Kind::welcome, .token = endpoint.token});
  return std::pair(hello->rank, std::move(connection));
}

// Rank 0's connections to all others, by rank.
std::vector<Connection> accept_all(const ListeningSocket& listening, const Endpoint& endpoint, int size) {
  std::vector<Connection> connections(static_cast<std::size_t>(size));
  int missing = size - 1;
  for (const Clock::time_point end = Clock::now() + kConnectTimeout; missing > 0 && Clock::now() < end;) {
    auto accepted = accept_rank(listening, endpoint);
    if (!accepted || accepted->first < 1 || accepted->first >= size) continue;
    Connection& connection = connections[static_cast<std::size_t>(accepted->first)];
    if (!connection.is_open()) --missing;  // otherwise a rank that got no answer in time tried again
    connection = std::move(accepted->second);
  }
  if (missing > 0)
    throw UserError(fmt::format("{} ranks did not connect to rank 0 within {} s; is there a firewall?",
                                missing, kConnectTimeout.count() / 1000));
  return connections;
}

// Rank 0 connects to all others, which connect to rank 0 only.
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
  if (all.rank() == 0) listening = listen_on(options.port);
  const Endpoint endpoint = share_endpoint(all, listening);
  if (all.rank() != 0) {
    peers.push_back(peer(0, connect_to_rank_0(endpoint, all.rank())));
    return peers;
  }
  std::vector<Connection> connections = accept_all(listening, endpoint, all.size());
  for (int rank = 1; rank < all.size(); ++rank)
    peers.push_back(peer(rank, std::move(connections[static_cast<std::size_t>(rank)])));
  return peers;
}

}  // namespace

class Watchdog::Thread {
 public:
  Thread(Group& all, const WatchdogOptions& options, std::function<void(const RankFailure&)> on_failure)
      : rank_(all.rank()),
        timeout_(options.timeout),
        interval_(std::min(kHeartbeatInterval, options.timeout / 4)),
        on_failure_(std::move(on_failure)),
        peers_(connect_peers(all, options)),
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
      // If this process was itself stopped, perhaps with the others, missing heartbeats prove nothing.
      if (now - checked > 3 * interval_)
        for (Peer& peer : peers_) peer.connection.reset_timeout(now);
      checked = now;
      for (Peer& peer : peers_)
        for (const Message& message : peer.connection.receive()) handle(peer, message);
      if (leave_if_requested()) return;
      if (find_cause(now)) return end();
      if (now - last_heartbeat_ < interval_) continue;
      last_heartbeat_ = now;
      send_to_all({.kind = Message::Kind::heartbeat});
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

  // A peer that is gone and reported nothing.
  std::optional<RankFailure> find_lost(Clock::time_point now) const {
    for (const Peer& peer : peers_) {
      if (peer.left || peer.failure) continue;
      if (!peer.connection.is_open())
        return peer.failed(
            "exited without reporting an error; was it killed, or did the machine run out of memory?");
      if (now - peer.connection.last_received() > timeout_)
        return peer.failed(
            fmt::format("sent no heartbeat for {:.3g} s (rank_timeout_secs); is it stopped, or the network "
                        "down?",
                        std::chrono::duration<double>(timeout_).count()));
    }
    return std::nullopt;
  }

  // A failure that a rank reported. This rank's own comes first, and is sent to rank 0.
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

  // Whether it is known why the run ends. Only rank 0 decides between reported failures, and after a moment:
  // a rank may fail because another one exited, or all fail alike and rank 0 is about to report the same.
  bool find_cause(Clock::time_point now) {
    if (cause_) return true;
    const std::optional<RankFailure> reported = find_reported();
    cause_ = find_lost(now);
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
  const milliseconds timeout_, interval_;
  const std::function<void(const RankFailure&)> on_failure_;
  std::vector<Peer> peers_;
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
