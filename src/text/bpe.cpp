#include "text/bpe.h"

#include <fmt/format.h>

#include "base/utf8.h"
#include "text/byte_level.h"

namespace dpo::text {
namespace {

constexpr std::string_view kMetaspace = "\u2581";  // the character that stands for a space

bool metaspace_at(std::string_view text, std::size_t at) {
  return text.substr(at, kMetaspace.size()) == kMetaspace;
}

}  // namespace

Bpe::Bpe(BpeParts parts, bool byte_level)
    : parts_(std::move(parts)), byte_level_(byte_level), merges_(parts_.merges) {
  find_symbols();
  find_fallback_tokens();
  splits_at_metaspace_ = can_split_at_metaspace();
  add_whole_words();
}

void Bpe::find_symbols() {
  symbols_ = StringMap(parts_.vocabulary.size());
  for (const auto& [text, id] : parts_.vocabulary) {
    const std::optional<std::string> bytes = byte_level_ ? from_byte_level(text) : text;
    if (bytes) symbols_.insert(*bytes, id);  // a token that maps to no bytes cannot appear in a word
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    const bool is_symbol = byte_level_ || byte < 0x80;
    bytes_[static_cast<std::size_t>(byte)] = is_symbol ? symbols_.find({&character, 1}) : kNoToken;
  }
}

void Bpe::find_fallback_tokens() {
  fallback_.fill(kNoToken);
  if (!parts_.byte_fallback) return;
  StringMap names(256);
  for (int byte = 0; byte < 256; ++byte) names.insert(fmt::format("<0x{:02X}>", byte), byte);
  for (const auto& [text, id] : parts_.vocabulary) {
    const std::int32_t byte = names.find(text);
    if (byte != StringMap::kAbsent) fallback_[static_cast<std::size_t>(byte)] = id;
  }
}

// Returns whether a text can be split before every metaspace that does not follow another one. This requires
// that no merge joins anything but a metaspace to a metaspace on its right. The words can then be looked up,
// instead of one word as long as the text.
bool Bpe::can_split_at_metaspace() const {
  if (byte_level_ || symbols_.find(kMetaspace) == kNoToken) return false;
  std::vector<const std::string*> texts;
  for (const auto& [text, id] : parts_.vocabulary) {
    if (static_cast<std::size_t>(id) >= texts.size()) texts.resize(static_cast<std::size_t>(id) + 1);
    texts[static_cast<std::size_t>(id)] = &text;
  }
  for (const Merge& merge : parts_.merges) {
    const std::string_view text = *texts[static_cast<std::size_t>(merge.result)];
    for (std::size_t at = text.find(kMetaspace, 1); at != text.npos; at = text.find(kMetaspace, at + 1))
      if (at < kMetaspace.size() || !metaspace_at(text, at - kMetaspace.size())) return false;
  }
  return true;
}

void Bpe::add_whole_words() {
  StringMap whole(parts_.vocabulary.size());
  MergeScratch scratch;
  std::vector<Token> ids;
  for (const auto& [text, id] : parts_.vocabulary) {
    const std::optional<std::string> word = byte_level_ ? from_byte_level(text) : text;
    if (!word || word->empty()) continue;
    ids.clear();
    encode_part(*word, ids, scratch);
    if (ids.size() == 1) whole.insert(*word, ids[0]);
  }
  whole_ = std::move(whole);
}

void Bpe::encode(std::string_view word, std::vector<Token>& out, MergeScratch& scratch) const {
  if (parts_.ignore_merges) {
    const Token id = symbols_.find(word);
    if (id != kNoToken) return out.push_back(id);
  }
  if (!splits_at_metaspace_) return encode_part(word, out, scratch);
  std::size_t start = 0;
  for (std::size_t at = word.find(kMetaspace, 1); at != word.npos;
       at = word.find(kMetaspace, at + kMetaspace.size())) {
    if (at >= kMetaspace.size() && metaspace_at(word, at - kMetaspace.size())) continue;
    encode_part(word.substr(start, at - start), out, scratch);
    start = at;
  }
  encode_part(word.substr(start), out, scratch);
}

void Bpe::encode_part(std::string_view word, std::vector<Token>& out, MergeScratch& scratch) const {
  const Token id = whole_.find(word);
  if (id != kNoToken) return out.push_back(id);
  scratch.symbols.clear();
  start_symbols(word, scratch.symbols);
  merge_word(merges_, scratch);
  out.insert(out.end(), scratch.symbols.begin(), scratch.symbols.end());
}

bool Bpe::fall_back_to_bytes(std::string_view character, std::vector<Token>& symbols) const {
  const std::size_t before = symbols.size();
  // Uses the bytes of the character as the file writes it, even if that character represents a byte.
  for (const char byte : byte_level_ ? to_byte_level(character) : std::string(character)) {
    const Token id = fallback_[static_cast<unsigned char>(byte)];
    if (id == kNoToken) {
      symbols.resize(before);
      return false;
    }
    symbols.push_back(id);
  }
  return true;
}

// Replaces a character that is not in the vocabulary by its bytes, else by the unknown token, else by
// nothing. As in the library, an unknown token is only added at the next known character, so several may fuse
// into one, and byte tokens come before it.
void Bpe::start_symbols(std::string_view word, std::vector<Token>& symbols) const {
  bool unknown_pending = false;
  const auto put_unknown = [&] {
    if (unknown_pending) symbols.push_back(*parts_.unknown);
    unknown_pending = false;
  };
  for (std::size_t at = 0; at < word.size();) {
    const auto lead = static_cast<unsigned char>(word[at]);
    const std::size_t length = byte_level_ || lead < 0x80 ? 1 : code_point_at(word, at).length;
    const std::string_view character = word.substr(at, length);
    at += length;
    const Token id = length == 1 ? bytes_[lead] : symbols_.find(character);
    if (id != kNoToken) {
      put_unknown();
      symbols.push_back(id);
    } else if (!(parts_.byte_fallback && fall_back_to_bytes(character, symbols)) && parts_.unknown) {
      if (!parts_.fuse_unknown) put_unknown();
      unknown_pending = true;
    }
  }
  put_unknown();
}

}  // namespace dpo::text
