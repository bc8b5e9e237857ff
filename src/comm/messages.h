// Messages of the watchdog's connections: lines of JSON. Every line is checked, because anyone who can reach
// rank 0's port can send data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::comm {

// The reason why a run ends: the rank that failed.
struct RankFailure {
  int rank = 0;
  std::string host;
  std::int64_t pid = 0;
  std::string what;       // its error, or an observation: "exited ...", "sent no heartbeat ..."
  bool reported = false;  // true if the rank itself reported it
  int status = 2;         // exit status of every rank
};

// "rank 2 (host a, pid 123) failed: ...", or "... was stopped by a signal", which is not an error.
std::string describe(const RankFailure& failure);

// The addresses where rank 0 listens, and the token of the run. The token reaches the other ranks over their
// group and is never sent to these addresses; see handshake.h.
struct Endpoint {
  std::vector<std::string> addresses;
  std::uint16_t port = 0;
  std::string token;
};

// Progress of a rank. `parts` counts parts of its work (base/progress_count.h), `collectives` the collective
// operations that it has begun.
struct Progress {
  std::uint64_t parts = 0, collectives = 0;

  bool operator==(const Progress&) const = default;
};

std::string text_of(const Endpoint& endpoint);
Endpoint parse_endpoint(const std::string& text);  // text from rank 0, which is trusted

struct Message {
  // hello, challenge, answer and welcome form the handshake. A rank reports its own failure with failed; rank
  // 0 then ends all ranks with abort.
  enum class Kind { heartbeat, hello, challenge, answer, welcome, goodbye, failed, abort };

  Kind kind = Kind::heartbeat;
  int rank = 0;              // in hello: the sender
  std::string nonce = {};    // in hello and challenge
  std::string proof = {};    // in challenge and answer
  Progress progress = {};    // in heartbeat: the sender's progress
  RankFailure failure = {};  // in failed and abort
};

std::string line_of(const Message& message);

// Returns nullopt if the line (without its newline) is not a valid message.
std::optional<Message> parse_message(std::string_view line);

// Splits the bytes of a connection, which arrive in pieces, into messages.
class MessageReader {
 public:
  // Returns the messages that end in this piece.
  std::vector<Message> add(std::string_view bytes);

  // Limit that no message reaches. A longer line is discarded. [bytes]
  static constexpr std::size_t kLongestLine = 256u << 10;

 private:
  std::string rest_;
};

}  // namespace dpo::comm
