#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace dpo::text {

struct AddedToken {
  Token id = 0;
  std::string content;
  bool special = false;
  bool normalized = true;  // looked for in the normalized text, as its normalized self
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
};

// A stretch of a text: an added token, or text between them.
struct Segment {
  std::size_t start;
  std::size_t end;
  std::optional<Token> token;
};

// Finds added tokens in a text: the leftmost, of those the longest, without overlap.
class AddedTokenFinder {
 public:
  AddedTokenFinder() { start_nodes_.fill(0); }

  // `pattern` is what is looked for; false if another token has the same pattern.
  bool add(std::string_view pattern, const AddedToken& token);

  // Replaces `segments` by those of `text`, in order.
  void find(std::string_view text, std::vector<Segment>& segments) const;

  bool empty() const { return tokens_.empty(); }

 private:
  struct Child {
    char byte;
    std::uint32_t node;
  };
  struct Node {
    std::vector<Child> children;
    std::int32_t token = -1;  // index into tokens_
  };
  struct Match {
    std::size_t end;
    const AddedToken* token;
  };

  std::uint32_t child_of(std::uint32_t node, char byte) const;
  std::optional<Match> longest_at(std::string_view text, std::size_t at) const;
  static bool is_single_word(std::string_view text, std::size_t start, std::size_t end);

  std::vector<Node> nodes_ = {Node{}};  // node 0 is the root, and "no such node"
  std::array<std::uint32_t, 256> start_nodes_;
  std::vector<AddedToken> tokens_;
};

}  // namespace dpo::text
