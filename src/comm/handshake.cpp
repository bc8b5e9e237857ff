#include "comm/handshake.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <thread>

#include <fmt/format.h>

#include "base/error.h"
#include "base/secret.h"

namespace dpo::comm {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kNonceBytes = 16;

// A connection that has not yet proved that it belongs to a rank.
struct PendingConnection {
  Connection connection;
  Clock::time_point since = Clock::now();
  std::string challenge = random_hex(kNonceBytes);  // the nonce that rank 0 sends
  int rank = 0;                                     // claimed rank; 0 before its hello
  std::string nonce = {};                           // from its hello
};

// Accepts connections on rank 0 until every rank has proved its identity.
class Acceptor {
 public:
  Acceptor(const ListeningSocket& listening, const std::string& token, int size,
           const HandshakeLimits& limits)
      : listening_(listening),
        token_(token),
        limits_(limits),
        ranks_(static_cast<std::size_t>(size)),
        missing_(size - 1) {}

  int missing() const { return missing_; }
  std::vector<Connection> take() { return std::move(ranks_); }

  // Waits briefly for the next event and handles it.
  void step() {
    std::vector<pollfd> waiting = {{listening_.socket.get(), POLLIN, 0}};
    for (const PendingConnection& pending : pending_)
      waiting.push_back({pending.connection.descriptor(), POLLIN, 0});
    ::poll(waiting.data(), waiting.size(), 100);
    for (std::size_t i = 0; i < pending_.size(); ++i)
      if (waiting[i + 1].revents != 0) handle_messages(pending_[i]);
    const Clock::time_point now = Clock::now();
    std::erase_if(pending_, [&](const PendingConnection& pending) {
      return !pending.connection.is_open() || now - pending.since > limits_.handshake;
    });
    if (waiting[0].revents != 0) accept_connections();
  }

 private:
  // Accepts a limited number of connections, so that a flood of them does not delay earlier ones.
  void accept_connections() {
    constexpr int kAtOnce = 32;
    for (int i = 0; i < kAtOnce; ++i) {
      Descriptor socket(::accept4(listening_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.is_open()) {
        const bool no_descriptors = errno == EMFILE || errno == ENFILE;
        if (no_descriptors && !pending_.empty()) pending_.erase(pending_.begin());
        return;
      }
      const int on = 1;
      ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      if (pending_.size() >= limits_.most_pending + ranks_.size()) pending_.erase(pending_.begin());
      pending_.push_back({.connection = Connection(std::move(socket))});
    }
  }

  void handle_messages(PendingConnection& pending) {
    for (const Message& message : pending.connection.receive()) {
      if (message.kind == Message::Kind::hello && is_a_rank(message.rank) && pending.rank == 0)
        challenge(pending, message);
      else if (message.kind == Message::Kind::answer && pending.rank != 0 &&
               is_same_secret(message.proof, proof(Prover::other_rank, pending)))
        return accept_rank(pending);
      else
        return pending.connection.close();
    }
  }

  bool is_a_rank(int rank) const { return rank >= 1 && rank < static_cast<int>(ranks_.size()); }

  std::string proof(Prover prover, const PendingConnection& pending) const {
    return proof_of(token_, prover, pending.rank, pending.nonce, pending.challenge);
  }

  void challenge(PendingConnection& pending, const Message& hello) {
    pending.rank = hello.rank;
    pending.nonce = hello.nonce;
    pending.connection.send({.kind = Message::Kind::challenge,
                             .nonce = pending.challenge,
                             .proof = proof(Prover::rank_0, pending)});
  }

  // Accepts a connection as that of its rank. A rank that got no answer in time may have tried again, so its
  // last open connection counts.
  void accept_rank(PendingConnection& pending) {
    if (!pending.connection.is_open()) return;
    Connection& connection = ranks_[static_cast<std::size_t>(pending.rank)];
    if (!connection.is_open()) --missing_;
    connection = std::move(pending.connection);
    pending.connection.close();
    connection.send({.kind = Message::Kind::welcome});
  }

  const ListeningSocket& listening_;
  const std::string& token_;
  const HandshakeLimits limits_;
  std::vector<Connection> ranks_;
  std::vector<PendingConnection> pending_;  // the oldest first
  int missing_;
};

// Returns the connection to rank 0, or nullopt if rank 0 is not at this address. Once rank 0 has proved its
// identity, waits up to `for_welcome` for its welcome. After a shorter wait, rank 0 might count this rank as
// connected although it has given up.
std::optional<Connection> try_address(const std::string& address, const Endpoint& endpoint, int rank,
                                      milliseconds patience, milliseconds for_welcome) {
  const Clock::time_point end = Clock::now() + patience;
  Connection connection(connect_to(address, endpoint.port, patience));
  if (!connection.is_open()) return std::nullopt;
  const std::string nonce = random_hex(kNonceBytes);
  connection.send({.kind = Message::Kind::hello, .rank = rank, .nonce = nonce});
  const std::optional<Message> challenge = connection.next(end);
  if (!challenge || challenge->kind != Message::Kind::challenge ||
      !is_same_secret(challenge->proof,
                      proof_of(endpoint.token, Prover::rank_0, rank, nonce, challenge->nonce)))
    return std::nullopt;
  connection.send({.kind = Message::Kind::answer,
                   .proof = proof_of(endpoint.token, Prover::other_rank, rank, nonce, challenge->nonce)});
  const std::optional<Message> welcome = connection.next(Clock::now() + for_welcome);
  if (!welcome || welcome->kind != Message::Kind::welcome) return std::nullopt;
  return connection;
}

}  // namespace

std::string proof_of(const std::string& token, Prover prover, int rank, const std::string& nonce_of_rank,
                     const std::string& nonce_of_rank_0) {
  // Each nonce follows its size, so no two pairs of nonces give the same text.
  return hmac_sha256(
      token, fmt::format("{} {} {}:{} {}:{}", prover == Prover::rank_0 ? "rank 0" : "rank", rank,
                         nonce_of_rank.size(), nonce_of_rank, nonce_of_rank_0.size(), nonce_of_rank_0));
}

std::vector<Connection> accept_ranks(const ListeningSocket& listening, const std::string& token, int size,
                                     const HandshakeLimits& limits) {
  Acceptor acceptor(listening, token, size, limits);
  const Clock::time_point end = Clock::now() + limits.all;
  while (acceptor.missing() > 0 && Clock::now() < end) acceptor.step();
  if (acceptor.missing() > 0)
    throw UserError(fmt::format("{} of {} ranks did not connect to rank 0 within {} s; is there a firewall?",
                                acceptor.missing(), size, limits.all.count() / 1000));
  return acceptor.take();
}

Connection connect_to_rank_0(const Endpoint& endpoint, int rank, const HandshakeLimits& limits) {
  const Clock::time_point end = Clock::now() + limits.all;
  constexpr milliseconds kFirst{1000}, kPause{50};
  for (milliseconds patience = std::min(kFirst, limits.handshake); Clock::now() < end;
       patience = std::min(2 * patience, limits.handshake)) {
    for (const std::string& address : endpoint.addresses)
      if (auto connection = try_address(address, endpoint, rank, patience, limits.handshake))
        return std::move(*connection);
    std::this_thread::sleep_for(kPause);
  }
  std::ostringstream tried;
  for (const std::string& address : endpoint.addresses) tried << ' ' << address << ':' << endpoint.port;
  throw UserError(fmt::format(
      "rank {} (host {}) found no rank 0 of this run within {} s; tried{}. Is there a firewall, or "
      "does another program listen there?",
      rank, host_name(), limits.all.count() / 1000, tried.str()));
}

}  // namespace dpo::comm
