// Messages of the watchdog's connections: lines of JSON. Anyone who can reach rank 0's port can send
// anything, so every line is checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::comm {

// Why a run ends: the rank that failed.
struct RankFailure {
  int rank = 0;
  std::string host;
  std::int64_t pid = 0;
  std::string what;       // its error, or what another rank noticed: "exited ...", "sent no heartbeat ..."
  bool reported = false;  // by the rank itself
  int status = 2;         // the exit status of every rank
};

// "rank 2 (host a, pid 123) failed: ...", or "... was stopped by a signal", which is not an error.
std::string describe(const RankFailure& failure);

// Where rank 0 listens, and the token of the run. It reaches the other ranks over their group, and is never
// sent to these addresses: see handshake.h.
struct Endpoint {
  std::vector<std::string> addresses;
  std::uint16_t port = 0;
  std::string token;
};

// How far a rank is. `parts` counts parts of its work (base/progress_count.h), `collectives` the collective
// operations that it has begun.
struct Progress {
  std::uint64_t parts = 0, collectives = 0;

  bool operator==(const Progress&) const = default;
};

std::string text_of(const Endpoint& endpoint);
Endpoint parse_endpoint(const std::string& text);  // text from rank 0, which is trusted

struct Message {
  // hello, challenge, answer and welcome are the handshake. A rank reports its own failure (failed); rank 0
  // then ends all (abort).
  enum class Kind { heartbeat, hello, challenge, answer, welcome, goodbye, failed, abort };

  Kind kind = Kind::heartbeat;
  int rank = 0;              // of hello: the sender
  std::string nonce = {};    // of hello and challenge
  std::string proof = {};    // of challenge and answer
  Progress progress = {};    // of heartbeat: the sender's
  RankFailure failure = {};  // of failed and abort
};

std::string line_of(const Message& message);

// nullopt if the line (without its end) is not a message.
std::optional<Message> parse_message(std::string_view line);

// The messages of a connection, whose bytes arrive in pieces.
class MessageReader {
 public:
  // The messages that end in this piece.
  std::vector<Message> add(std::string_view bytes);

  // Longer than any message. A longer line is discarded.
  static constexpr std::size_t kLongestLine = 256u << 10;

 private:
  std::string rest_;
};

}  // namespace dpo::comm
