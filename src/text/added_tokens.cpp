#include "text/added_tokens.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/unicode.h"

namespace dpo::text {
namespace {

bool has_class(std::string_view text, std::size_t at, std::uint8_t wanted) {
  return (char_classes()[code_point_at(text, at).code] & wanted) != 0;
}

// Returns how many bytes two texts share from the start. Compares eight at a time, because they usually share
// many.
std::size_t shared_bytes(std::string_view a, std::string_view b) {
  const std::size_t most = std::min(a.size(), b.size());
  std::size_t at = 0;
  while (at + 8 <= most && std::memcmp(a.data() + at, b.data() + at, 8) == 0) at += 8;
  while (at < most && a[at] == b[at]) ++at;
  return at;
}

}  // namespace

AddedToken read_added_token(const JsonField& field) {
  AddedToken token;
  token.content = field.at("content").text();
  if (token.content.empty()) field.at("content").refuse("a non-empty string");
  token.special = field.flag_or("special", false);
  token.normalized = field.flag_or("normalized", !token.special);
  token.single_word = field.flag_or("single_word", false);
  token.lstrip = field.flag_or("lstrip", false);
  token.rstrip = field.flag_or("rstrip", false);
  return token;
}

AddedTokens::AddedTokens(const Vocabulary& vocabulary)
    : ids_(vocabulary.size()), next_(static_cast<Token>(vocabulary.size())) {
  for (const auto& [text, id] : vocabulary) ids_.insert(text, id);
}

void AddedTokens::add(AddedToken token, const std::optional<Given>& given) {
  if (added_.find(token.content) != StringMap::kAbsent) return;
  const Token known = ids_.find(token.content);
  token.id = known == StringMap::kAbsent ? next_++ : known;
  if (given && given->id != token.id)
    given->field.refuse(
        fmt::format("the id {}, {}", token.id,
                    known == StringMap::kAbsent ? "the next after the vocabulary" : "as in the vocabulary"));
  added_.insert(token.content, token.id);
  tokens_.push_back(std::move(token));
}

std::uint32_t AddedTokenFinder::child_of(std::uint32_t node, char byte) const {
  for (const Child& child : nodes_[node].children)
    if (child.byte == byte) return child.node;
  return 0;
}

bool AddedTokenFinder::add(std::string_view pattern, const AddedToken& token) {
  std::uint32_t node = 0;
  for (const char byte : pattern) {
    std::uint32_t next = child_of(node, byte);
    if (next == 0) {
      next = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back();
      nodes_[node].children.push_back({byte, next});
      if (node == 0) start_nodes_[static_cast<unsigned char>(byte)] = next;
    }
    node = next;
  }
  if (nodes_[node].token >= 0) return false;
  nodes_[node].token = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back(token);
  longest_ = std::max(longest_, pattern.size());
  return true;
}

// Returns where a token may begin, from `at` on, or the end of the text.
std::size_t AddedTokenFinder::next_start(std::string_view text, std::size_t at) const {
  const std::vector<Child>& starts = nodes_[0].children;
  for (;; ++at) {
    if (starts.size() == 1)  // often all tokens begin with "<"
      at = text.find(starts[0].byte, at);
    else
      while (at < text.size() && start_nodes_[static_cast<unsigned char>(text[at])] == 0) ++at;
    if (at >= text.size()) return text.size();
    const std::uint32_t node = start_nodes_[static_cast<unsigned char>(text[at])];
    if (nodes_[node].token >= 0 || (at + 1 < text.size() && child_of(node, text[at + 1]) != 0)) return at;
  }
}

std::optional<AddedTokenFinder::Match> AddedTokenFinder::longest_at(std::string_view text,
                                                                    std::size_t at) const {
  std::optional<Match> longest;
  std::uint32_t node = start_nodes_[static_cast<unsigned char>(text[at])];
  for (std::size_t end = at + 1; node != 0; ++end) {
    if (nodes_[node].token >= 0) longest = Match{end, &tokens_[static_cast<std::size_t>(nodes_[node].token)]};
    node = end < text.size() ? child_of(node, text[end]) : 0;
  }
  return longest;
}

bool AddedTokenFinder::is_single_word(std::string_view text, std::size_t start, std::size_t end) {
  return !(start > 0 && has_class(text, previous_start(text, start), kWord)) &&
         !(end < text.size() && has_class(text, end, kWord));
}

void AddedTokenFinder::find(std::string_view text, std::vector<Segment>& segments) const {
  segments.clear();
  find_from(0, text, segments);
}

// Returns whether the segment is a token that does not include white space around it.
bool AddedTokenFinder::is_strict(const Segment& segment) const {
  const auto token = std::ranges::find(tokens_, segment.token, &AddedToken::id);
  return token != tokens_.end() && !token->lstrip && !token->rstrip;
}

void AddedTokenFinder::find_alike(std::string_view other, const std::vector<Segment>& known,
                                  std::string_view text, std::vector<Segment>& segments) const {
  const std::size_t common = shared_bytes(other, text);
  // No match that begins before the end of a kept token reaches the first difference of the texts.
  std::size_t kept = known.size();
  while (kept > 0 && !(known[kept - 1].end + longest_ <= common && is_strict(known[kept - 1]))) --kept;
  segments.assign(known.begin(), known.begin() + static_cast<std::ptrdiff_t>(kept));
  find_from(kept > 0 ? known[kept - 1].end : 0, text, segments);
}

void AddedTokenFinder::find_from(std::size_t from, std::string_view text,
                                 std::vector<Segment>& segments) const {
  std::size_t done = from;
  for (std::size_t at = next_start(text, from); at < text.size(); at = next_start(text, at)) {
    const std::optional<Match> match = longest_at(text, at);
    if (!match) {
      ++at;
      continue;
    }
    std::size_t start = at;
    std::size_t end = match->end;
    at = end;  // the search continues after the token's own text, whatever its flags
    const AddedToken& token = *match->token;
    if (token.single_word && !is_single_word(text, start, end)) continue;
    if (token.lstrip) {
      while (start > 0 && has_class(text, previous_start(text, start), kSpace))
        start = previous_start(text, start);
      start = std::max(start, done);
    }
    while (token.rstrip && end < text.size() && has_class(text, end, kSpace))
      end += code_point_at(text, end).length;
    if (done < start) segments.push_back({done, start, std::nullopt});
    segments.push_back({start, end, token.id});
    done = end;
  }
  if (done != text.size()) segments.push_back({done, text.size(), std::nullopt});
}

}  // namespace dpo::text
