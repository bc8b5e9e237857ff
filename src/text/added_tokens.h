#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe.h"
#include "text/json_field.h"

namespace dpo::text {

struct AddedToken {
  Token id = 0;
  std::string content;
  bool special = false;
  bool normalized = true;  // its normalized form is searched in the normalized text
  bool single_word = false;
  bool lstrip = false;
  bool rstrip = false;
};

AddedToken read_added_token(const JsonField& field);

// Gives added tokens their ids as the library does: the vocabulary's id, otherwise the next one after it. A
// file with another id is rejected, because the model was not trained with that id.
class AddedTokens {
 public:
  explicit AddedTokens(const Vocabulary& vocabulary);

  // An id from a file, and the field that contains it.
  struct Given {
    std::int64_t id;
    JsonField field;
  };
  // Adds a token. A token that was added before keeps its first definition.
  void add(AddedToken token, const std::optional<Given>& given);

  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  StringMap ids_;
  StringMap added_;
  Token next_;
  std::vector<AddedToken> tokens_;
};

// A part of a text: an added token, or the text between two of them.
struct Segment {
  std::size_t start;
  std::size_t end;
  std::optional<Token> token;
};

// Finds added tokens in a text: the leftmost first, then the longest, without overlap.
class AddedTokenFinder {
 public:
  AddedTokenFinder() { start_nodes_.fill(0); }

  // Adds a pattern to search for. Returns false if another token has the same pattern.
  bool add(std::string_view pattern, const AddedToken& token);

  // Replaces `segments` with those of `text`, in order.
  void find(std::string_view text, std::vector<Segment>& segments) const;

  // Computes what find() does for a text that begins like `other`, whose segments are known. Searches only
  // from where the result can differ.
  void find_alike(std::string_view other, const std::vector<Segment>& known, std::string_view text,
                  std::vector<Segment>& segments) const;

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

  void find_from(std::size_t from, std::string_view text, std::vector<Segment>& segments) const;
  bool is_strict(const Segment& segment) const;
  std::size_t next_start(std::string_view text, std::size_t at) const;
  std::uint32_t child_of(std::uint32_t node, char byte) const;
  std::optional<Match> longest_at(std::string_view text, std::size_t at) const;
  static bool is_single_word(std::string_view text, std::size_t start, std::size_t end);

  std::vector<Node> nodes_ = {Node{}};  // node 0 is the root; as a child it means "none"
  std::array<std::uint32_t, 256> start_nodes_;
  std::vector<AddedToken> tokens_;
  std::size_t longest_ = 0;  // length of the longest pattern, in bytes
};

}  // namespace dpo::text
