#include "comm/watch.h"

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
#include "comm/exchange.h"
#include "comm/sockets.h"

namespace dpo::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kBeat{1000};          // between two signs of life, at most
constexpr milliseconds kGrace{500};          // between a failure and its judgement
constexpr milliseconds kLastWords{5000};     // that a failing rank waits to be heard
constexpr milliseconds kConnecting{60'000};  // at the start
constexpr std::size_t kMostWords = 16'384;

// One end of a connection between two ranks.
class Line {
 public:
  explicit Line(Descriptor socket = Descriptor()) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.get(); }
  bool is_open() const { return socket_.is_open(); }
  Clock::time_point heard() const { return heard_; }
  void forgive(Clock::time_point now) { heard_ = now; }
  void close() { socket_.close(); }

  // What does not fit is left out: who reads nothing for so long is lost anyway.
  void send(const Message& message) {
    const std::string text = line_of(message);
    [[maybe_unused]] const ssize_t sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }

  // All messages that came; closed afterwards if the other end is.
  std::vector<Message> receive() {
    std::array<char, 4096> bytes;
    std::vector<Message> messages;
    while (is_open()) {
      const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
      if (count > 0) {
        heard_ = Clock::now();
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
  Clock::time_point heard_ = Clock::now();
};

// A rank as another one sees it.
struct Peer {
  int rank = 0;
  std::string host;
  std::int64_t pid = 0;
  Line line;
  bool left = false;                 // with a goodbye
  std::optional<Loss> failure = {};  // its last words

  Loss lost(std::string what) const { return {rank, host, pid, std::move(what)}; }
};

void wait_until_readable(int descriptor, milliseconds time) {
  pollfd waiting{descriptor, POLLIN, 0};
  ::poll(&waiting, 1, static_cast<int>(time.count()));
}

// The first message of a line, if it comes in time.
std::optional<Message> first_message(Line& line, milliseconds time) {
  for (const Clock::time_point end = Clock::now() + time; line.is_open() && Clock::now() < end;) {
    wait_until_readable(line.descriptor(), milliseconds(100));
    const std::vector<Message> messages = line.receive();
    if (!messages.empty()) return messages.front();
  }
  return std::nullopt;
}

Invitation share(Group& all, const Door& door) {
  Invitation own;
  if (all.rank() == 0) own = {own_addresses(), door.port, std::to_string(std::random_device()())};
  return parse_invitation(broadcast_text(all, text_of(own), 0));
}

// Tries all addresses until the one who answers knows the word: others may listen at that port elsewhere.
Line visit(const Invitation& invitation, int rank) {
  for (const std::string& address : invitation.addresses) {
    Line line(connect_to(address, invitation.port, milliseconds(3000)));
    if (!line.is_open()) continue;
    line.send({.kind = Message::Kind::hello, .word = invitation.word, .rank = rank});
    const auto answer = first_message(line, milliseconds(10'000));
    if (answer && answer->kind == Message::Kind::welcome && answer->word == invitation.word) return line;
  }
  std::ostringstream tried;
  for (const std::string& address : invitation.addresses) tried << ' ' << address << ':' << invitation.port;
  throw UserError(
      fmt::format("rank {} (host {}) cannot reach the first rank, at any of{}; is a firewall between them?",
                  rank, host_name(), tried.str()));
}

// Rank and line of the next visitor who knows the word, if any.
std::optional<std::pair<int, Line>> receive_visitor(const Door& door, const Invitation& invitation) {
  wait_until_readable(door.socket.get(), milliseconds(100));
  Line line(Descriptor(::accept4(door.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)));
  if (!line.is_open()) return std::nullopt;
  const int on = 1;
  ::setsockopt(line.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const auto hello = first_message(line, milliseconds(5000));
  if (!hello || hello->kind != Message::Kind::hello || hello->word != invitation.word) return std::nullopt;
  line.send({.kind = Message::Kind::welcome, .word = invitation.word});
  return std::pair(hello->rank, std::move(line));
}

// The lines of the first rank to all others.
std::vector<Line> receive_all(const Door& door, const Invitation& invitation, int size) {
  std::vector<Line> lines(static_cast<std::size_t>(size));
  int missing = size - 1;
  for (const Clock::time_point end = Clock::now() + kConnecting; missing > 0 && Clock::now() < end;) {
    auto visitor = receive_visitor(door, invitation);
    if (!visitor || visitor->first < 1 || visitor->first >= size) continue;
    Line& line = lines[static_cast<std::size_t>(visitor->first)];
    if (!line.is_open()) --missing;  // a visitor whom nobody answered in time comes again
    line = std::move(visitor->second);
  }
  if (missing > 0)
    throw UserError(
        fmt::format("{} ranks did not reach the first one within {} s; is a firewall between them?", missing,
                    kConnecting.count() / 1000));
  return lines;
}

// Whom this rank has a line to: the first to all, the others to the first.
std::vector<Peer> meet(Group& all, const WatchOptions& options) {
  const std::vector<std::string> hosts = gather_texts(all, host_name());
  const std::vector<std::string> pids = gather_texts(all, std::to_string(::getpid()));
  const auto peer = [&](int rank, Line line) {
    const auto i = static_cast<std::size_t>(rank);
    return Peer{.rank = rank, .host = hosts[i], .pid = std::stoll(pids[i]), .line = std::move(line)};
  };
  std::vector<Peer> peers;
  Door door;
  if (all.rank() == 0) door = open_door(options.port);
  const Invitation invitation = share(all, door);
  if (all.rank() != 0) {
    peers.push_back(peer(0, visit(invitation, all.rank())));
    return peers;
  }
  std::vector<Line> lines = receive_all(door, invitation, all.size());
  for (int rank = 1; rank < all.size(); ++rank)
    peers.push_back(peer(rank, std::move(lines[static_cast<std::size_t>(rank)])));
  return peers;
}

}  // namespace

class Watch::Thread {
 public:
  Thread(Group& all, const WatchOptions& options, std::function<void(const Loss&)> on_loss)
      : rank_(all.rank()),
        patience_(options.patience),
        beat_(std::min(kBeat, options.patience / 4)),
        on_loss_(std::move(on_loss)),
        peers_(meet(all, options)),
        alarm_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        thread_([this] { work(); }) {}

  ~Thread() {
    ask([this] { leaving_ = true; });
    thread_.join();
  }

  void fail(const std::string& words, int status) {
    ask([&] {
      own_failure_ = {rank_, host_name(), ::getpid(), words.substr(0, kMostWords), /*spoke=*/true, status};
    });
    std::unique_lock lock(mutex_);
    ended_.wait_for(lock, kLastWords, [this] { return has_ended_; });
  }

 private:
  template <typename Change>
  void ask(Change change) {
    const std::lock_guard lock(mutex_);
    change();
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(alarm_.get(), &one, sizeof one);
  }

  void work() {
    Clock::time_point looked = Clock::now();
    while (true) {
      wait_for_news();
      const Clock::time_point now = Clock::now();
      // Who was stopped itself, with the others perhaps, judges nobody for it.
      if (now - looked > 3 * beat_)
        for (Peer& peer : peers_) peer.line.forgive(now);
      looked = now;
      for (Peer& peer : peers_)
        for (const Message& message : peer.line.receive()) hear(peer, message);
      if (leave_if_asked()) return;
      if (find_verdict(now)) return end();
      if (now - beaten_ < beat_) continue;
      beaten_ = now;
      tell_all({.kind = Message::Kind::alive});
    }
  }

  void wait_for_news() {
    std::vector<pollfd> all = {{alarm_.get(), POLLIN, 0}};
    for (const Peer& peer : peers_)
      if (peer.line.is_open()) all.push_back({peer.line.descriptor(), POLLIN, 0});
    ::poll(all.data(), all.size(),
           static_cast<int>((suspected_ ? std::min(beat_, kGrace / 4) : beat_).count()));
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t read = ::read(alarm_.get(), &count, sizeof count);
  }

  void hear(Peer& peer, const Message& message) {
    if (message.kind == Message::Kind::goodbye) peer.left = true;
    if (message.kind == Message::Kind::failed) peer.failure = message.loss;
    if (message.kind == Message::Kind::loss) verdict_ = message.loss;
  }

  bool leave_if_asked() {
    {
      const std::lock_guard lock(mutex_);
      if (!leaving_) return false;
    }
    tell_all({.kind = Message::Kind::goodbye});
    return true;
  }

  void tell_all(const Message& message) {
    for (Peer& peer : peers_)
      if (peer.line.is_open()) peer.line.send(message);
  }

  // A peer that is gone without a word.
  std::optional<Loss> find_lost(Clock::time_point now) const {
    for (const Peer& peer : peers_) {
      if (peer.left || peer.failure) continue;
      if (!peer.line.is_open())
        return peer.lost("died without a word: killed, or out of the machine's memory?");
      if (now - peer.line.heard() > patience_)
        return peer.lost(
            fmt::format("gave no sign of life for {:.3g} s (rank_timeout_secs): stopped, or cut off?",
                        std::chrono::duration<double>(patience_).count()));
    }
    return std::nullopt;
  }

  // Somebody's last words: first of all this rank's own, which the first rank has to hear.
  std::optional<Loss> find_failure() {
    {
      const std::lock_guard lock(mutex_);
      if (own_failure_ && rank_ != 0 && !std::exchange(said_, true))
        peers_[0].line.send({.kind = Message::Kind::failed, .loss = *own_failure_});
      if (own_failure_) return own_failure_;
    }
    for (const Peer& peer : peers_)
      if (peer.failure) return peer.failure;
    return std::nullopt;
  }

  // Whether it is known why the run ends. Failures are judged by the first rank alone, and a moment later:
  // who fails may do so because another died, or all fail alike and the first is about to say so itself.
  bool find_verdict(Clock::time_point now) {
    if (verdict_) return true;
    const std::optional<Loss> failure = find_failure();
    verdict_ = find_lost(now);
    if (verdict_ || !failure || rank_ != 0) return verdict_.has_value();
    if (!suspected_) suspected_ = now;
    if (now - *suspected_ >= kGrace) verdict_ = failure;
    return verdict_.has_value();
  }

  void end() {
    if (rank_ == 0) tell_all({.kind = Message::Kind::loss, .loss = *verdict_});
    on_loss_(*verdict_);
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    ended_.notify_all();
  }

  const int rank_;
  const milliseconds patience_, beat_;
  const std::function<void(const Loss&)> on_loss_;
  std::vector<Peer> peers_;
  std::optional<Loss> verdict_;
  std::optional<Clock::time_point> suspected_;
  Clock::time_point beaten_;
  bool said_ = false;

  std::mutex mutex_;
  std::condition_variable ended_;
  bool leaving_ = false, has_ended_ = false;
  std::optional<Loss> own_failure_;
  Descriptor alarm_;
  std::thread thread_;
};

Watch::Watch(Group& all, const WatchOptions& options, std::function<void(const Loss&)> on_loss) {
  if (all.size() > 1) thread_ = std::make_unique<Thread>(all, options, std::move(on_loss));
}

Watch::~Watch() = default;

void Watch::fail(const std::string& words, int status) {
  if (thread_) thread_->fail(words, status);
}

}  // namespace dpo::comm
