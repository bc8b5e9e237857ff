// What ranks say to each other over the watch's connections: lines of JSON. Whoever can reach the port of the
// first rank can send anything, so nothing of a line is believed before it was looked at.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::comm {

// Why the ranks of a run end: one of them.
struct Loss {
  int rank = 0;
  std::string host;
  std::int64_t pid = 0;
  std::string what;    // "died ...", "gave no sign of life ...", or its last words
  bool spoke = false;  // these are its own last words
  int status = 2;      // that every rank's process is to end with
};

// "rank 2 (host a, pid 123) failed: ..."
std::string describe(const Loss& loss);

// Where the first rank listens, and the word that its visitors know.
struct Invitation {
  std::vector<std::string> addresses;
  std::uint16_t port = 0;
  std::string word;
};

std::string text_of(const Invitation& invitation);
Invitation parse_invitation(const std::string& text);  // of the first rank, which all believe

struct Message {
  enum class Kind { alive, hello, welcome, goodbye, failed, loss };

  Kind kind = Kind::alive;
  std::string word = {};  // of hello and welcome: what the ranks of this run alone know
  int rank = 0;           // of hello: who comes
  Loss loss = {};         // of failed and loss
};

std::string line_of(const Message& message);

// Nothing where the line (without its end) is no message.
std::optional<Message> parse_message(std::string_view line);

// The messages of a connection, whose bytes come in pieces.
class MessageReader {
 public:
  // The messages that end in this piece.
  std::vector<Message> add(std::string_view bytes);

  // Longer than any message; what comes without a line end for so long is forgotten.
  static constexpr std::size_t kLongestLine = 256u << 10;

 private:
  std::string rest_;
};

}  // namespace dpo::comm
