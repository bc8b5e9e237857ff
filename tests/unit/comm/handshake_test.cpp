#include "comm/handshake.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"

namespace dpo::comm {
namespace {

using namespace std::chrono_literals;

const std::string kToken = "0123456789abcdef0123456789abcdef";
// Far longer than any test here takes.
const HandshakeLimits kPatient{.all = 60s, .handshake = 60s};

Descriptor connect_as_stranger(std::uint16_t port) {
  Descriptor socket = connect_to("127.0.0.1", port, 60s);
  EXPECT_TRUE(socket.is_open());
  return socket;
}

void send_text(const Descriptor& socket, const std::string& text) {
  EXPECT_EQ(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

// Runs rank 0 in its own thread. Its answers to strangers can be read while a rank is missing.
class Rank0 {
 public:
  explicit Rank0(int size, HandshakeLimits limits = kPatient)
      : thread_([this, size, limits] { ranks_ = accept_ranks(listening_, kToken, size, limits); }) {}

  std::uint16_t port() const { return listening_.port; }
  Endpoint endpoint(const std::string& token = kToken) const { return {{"127.0.0.1"}, port(), token}; }
  std::vector<Connection>& ranks() {
    if (thread_.joinable()) thread_.join();
    return ranks_;
  }

 private:
  ListeningSocket listening_ = listen_on(std::nullopt, Reach::this_machine);
  std::vector<Connection> ranks_;
  std::thread thread_;
};

// Connects all other ranks and checks that each gets the connection of its number.
void check_all_connect(Rank0& rank_0, int size) {
  std::vector<Connection> connections;
  for (int rank = 1; rank < size; ++rank)
    connections.push_back(connect_to_rank_0(rank_0.endpoint(), rank, kPatient));
  ASSERT_EQ(rank_0.ranks().size(), static_cast<std::size_t>(size));
  for (int rank = 1; rank < size; ++rank) {
    Connection& own = connections[static_cast<std::size_t>(rank - 1)];
    own.send({.kind = Message::Kind::heartbeat, .progress = {static_cast<std::uint64_t>(rank), 0}});
    const auto heard = rank_0.ranks()[static_cast<std::size_t>(rank)].next(Clock::now() + 60s);
    ASSERT_TRUE(heard);
    EXPECT_EQ(heard->progress.parts, static_cast<std::uint64_t>(rank));
  }
}

TEST(Handshake, RanksConnect) {
  Rank0 rank_0(4);
  check_all_connect(rank_0, 4);
}

TEST(Handshake, IdleStrangersHoldUpNobody) {
  for (const int strangers : {12, 200}) {
    Rank0 rank_0(3);
    std::vector<Descriptor> idle;
    for (int i = 0; i < strangers; ++i) idle.push_back(connect_as_stranger(rank_0.port()));
    check_all_connect(rank_0, 3);
  }
}

TEST(Handshake, GarbageAndHalfMessagesHoldUpNobody) {
  Rank0 rank_0(3);
  std::vector<Descriptor> strangers;
  const std::string hello = line_of({.kind = Message::Kind::hello, .rank = 1, .nonce = "n"});
  for (const std::string& text :
       {std::string("nonsense\n"), std::string("\0\xff\n\n{", 5), std::string(1 << 20, 'x'),
        hello.substr(0, hello.size() / 2), hello, hello + hello,
        line_of({.kind = Message::Kind::hello, .rank = 0, .nonce = "n"}),
        line_of({.kind = Message::Kind::hello, .rank = 3, .nonce = "n"}),
        line_of({.kind = Message::Kind::hello, .rank = -1, .nonce = "n"}),
        line_of({.kind = Message::Kind::answer, .proof = "p"}),
        hello + line_of({.kind = Message::Kind::answer, .proof = "p"}),
        line_of({.kind = Message::Kind::abort}), line_of({.kind = Message::Kind::heartbeat})}) {
    strangers.push_back(connect_as_stranger(rank_0.port()));
    // Part of a long text suffices, because rank 0 does not read it to its end.
    EXPECT_GT(::send(strangers.back().get(), text.data(), text.size(), MSG_NOSIGNAL), 0);
  }
  check_all_connect(rank_0, 3);
}

TEST(Handshake, ASilentStrangerMustGo) {
  Rank0 rank_0(2, {.all = 300s, .handshake = 50ms});
  Connection stranger(connect_as_stranger(rank_0.port()));
  EXPECT_FALSE(stranger.next(Clock::now() + 60s));
  EXPECT_FALSE(stranger.is_open());
  check_all_connect(rank_0, 2);
}

TEST(Handshake, OfTooManyStrangersTheOldestMustGo) {
  Rank0 rank_0(2, {.all = 300s, .handshake = 300s, .most_pending = 5});
  Connection oldest(connect_as_stranger(rank_0.port()));
  std::vector<Descriptor> more;
  for (int i = 0; i < 20; ++i) more.push_back(connect_as_stranger(rank_0.port()));
  EXPECT_FALSE(oldest.next(Clock::now() + 60s));
  EXPECT_FALSE(oldest.is_open());
  check_all_connect(rank_0, 2);
}

// The messages of one handshake that an eavesdropper has recorded.
struct Heard {
  std::string nonce, answer;
};

Heard handshake(const Endpoint& endpoint, Connection& connection) {
  const std::string nonce = "0123";
  connection.send({.kind = Message::Kind::hello, .rank = 1, .nonce = nonce});
  const auto challenge = connection.next(Clock::now() + 60s);
  if (!challenge || challenge->kind != Message::Kind::challenge) return {};
  EXPECT_EQ(challenge->proof, proof_of(endpoint.token, Prover::rank_0, 1, nonce, challenge->nonce));
  return {nonce, proof_of(endpoint.token, Prover::other_rank, 1, nonce, challenge->nonce)};
}

TEST(Handshake, AnOldAnswerIsWorthNothing) {
  Rank0 rank_0(3);
  Connection first(connect_as_stranger(rank_0.port())), second(connect_as_stranger(rank_0.port()));
  const Heard heard = handshake(rank_0.endpoint(), first);
  first.send({.kind = Message::Kind::answer, .proof = heard.answer});
  const auto welcome = first.next(Clock::now() + 60s);
  ASSERT_TRUE(welcome);
  EXPECT_EQ(welcome->kind, Message::Kind::welcome);

  second.send({.kind = Message::Kind::hello, .rank = 1, .nonce = heard.nonce});
  ASSERT_TRUE(second.next(Clock::now() + 60s));  // another challenge
  second.send({.kind = Message::Kind::answer, .proof = heard.answer});
  EXPECT_FALSE(second.next(Clock::now() + 60s));
  EXPECT_FALSE(second.is_open());
  check_all_connect(rank_0, 3);
}

// A rank closes its connection if rank 0, which waits for a core, does not answer in time. It then tries
// again, and must be counted once.
TEST(Handshake, ARankThatGaveUpIsNotCounted) {
  Rank0 rank_0(3);
  for (int i = 0; i < 20; ++i) {
    Connection hasty(connect_as_stranger(rank_0.port()));
    const Heard heard = handshake(rank_0.endpoint(), hasty);
    hasty.send({.kind = Message::Kind::answer, .proof = heard.answer});
    hasty.close();
  }
  check_all_connect(rank_0, 3);
}

// Sends rank 0's own proof back to it as an answer.
TEST(Handshake, AReflectedProofIsWorthNothing) {
  Rank0 rank_0(2);
  Connection stranger(connect_as_stranger(rank_0.port()));
  stranger.send({.kind = Message::Kind::hello, .rank = 1, .nonce = "0123"});
  const auto challenge = stranger.next(Clock::now() + 60s);
  ASSERT_TRUE(challenge);
  stranger.send({.kind = Message::Kind::answer, .proof = challenge->proof});
  EXPECT_FALSE(stranger.next(Clock::now() + 60s));
  EXPECT_FALSE(stranger.is_open());
  check_all_connect(rank_0, 2);
}

TEST(Handshake, ARankOfAnotherRunIsAStranger) {
  Rank0 rank_0(2);
  EXPECT_THROW(connect_to_rank_0(rank_0.endpoint("another token"), 1, {.all = 1s, .handshake = 1s}),
               UserError);
  check_all_connect(rank_0, 2);
}

// Returns everything that a rank sends to a program that is not rank 0.
std::string heard_by_impostor(const std::string& reply) {
  const ListeningSocket listening = listen_on(std::nullopt, Reach::this_machine);
  std::string heard;
  std::jthread impostor([&](const std::stop_token& stop) {
    std::vector<Descriptor> guests;
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(1ms);
      Descriptor guest(::accept4(listening.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (guest.is_open()) {
        if (!reply.empty()) send_text(guest, reply);
        guests.push_back(std::move(guest));
      }
      for (const Descriptor& known : guests) {
        char bytes[4096];
        const ssize_t count = ::recv(known.get(), bytes, sizeof bytes, 0);
        if (count > 0) heard.append(bytes, static_cast<std::size_t>(count));
      }
    }
  });
  const Endpoint endpoint{{"127.0.0.1"}, listening.port, kToken};
  EXPECT_THROW(connect_to_rank_0(endpoint, 1, {.all = 500ms, .handshake = 100ms}), UserError);
  impostor.request_stop();
  impostor.join();
  return heard;
}

TEST(Handshake, AnImpostorLearnsNothingAndIsNotBelieved) {
  for (const std::string& reply : {std::string(), std::string("HTTP/1.1 400 Bad Request\r\n\r\n"),
                                   line_of({.kind = Message::Kind::welcome}),
                                   line_of({.kind = Message::Kind::challenge, .nonce = "1", .proof = "2"}) +
                                       line_of({.kind = Message::Kind::welcome})}) {
    const std::string heard = heard_by_impostor(reply);
    EXPECT_NE(heard.find("hello"), std::string::npos);
    EXPECT_EQ(heard.find(kToken), std::string::npos);
    EXPECT_EQ(heard.find("answer"), std::string::npos) << heard;
  }
}

// For this rank, one address of rank 0 belongs to another machine, where a program listens but never answers.
TEST(Handshake, AnImpostorOnOneAddressDoesNotKeepRanksFromTheOther) {
  Rank0 rank_0(2);
  Descriptor impostor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(rank_0.port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);  // 127.0.0.2
  ASSERT_EQ(::bind(impostor.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(impostor.get(), 8), 0);
  Connection connection = connect_to_rank_0({{"127.0.0.2", "127.0.0.1"}, rank_0.port(), kToken}, 1, kPatient);
  EXPECT_TRUE(connection.is_open());
  rank_0.ranks();
}

TEST(Handshake, MissingRanksAreCounted) {
  const ListeningSocket listening = listen_on(std::nullopt);
  try {
    accept_ranks(listening, kToken, 4, {.all = 10ms});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("3 of 4 ranks did not connect"), std::string::npos)
        << error.what();
  }
}

TEST(Handshake, ProofsDifferInEveryPart) {
  const auto proof = [](Prover prover, int rank, const std::string& a, const std::string& b) {
    return proof_of(kToken, prover, rank, a, b);
  };
  const std::string one = proof(Prover::rank_0, 1, "a", "b");
  EXPECT_EQ(one, proof(Prover::rank_0, 1, "a", "b"));
  EXPECT_NE(one, proof(Prover::other_rank, 1, "a", "b"));
  EXPECT_NE(one, proof(Prover::rank_0, 2, "a", "b"));
  EXPECT_NE(one, proof(Prover::rank_0, 1, "b", "a"));
  EXPECT_NE(proof(Prover::rank_0, 1, "a 1:b", ""), proof(Prover::rank_0, 1, "a", "b"));
  EXPECT_NE(one, proof_of("another", Prover::rank_0, 1, "a", "b"));
}

}  // namespace
}  // namespace dpo::comm
