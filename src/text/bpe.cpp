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

Bpe::Bpe(BpeParts parts, bool bytes_of_text)
    : parts_(std::move(parts)), bytes_of_text_(bytes_of_text), merges_(parts_.merges) {
  find_symbols();
  find_fallback_tokens();
  cuts_at_metaspace_ = may_be_cut_at_metaspace();
  add_whole_words();
}

void Bpe::find_symbols() {
  symbols_ = StringMap(parts_.vocabulary.size());
  for (const auto& [text, id] : parts_.vocabulary) {
    const std::optional<std::string> bytes = bytes_of_text_ ? bytes_of_mapped(text) : text;
    if (bytes) symbols_.insert(*bytes, id);  // text that maps to no bytes cannot appear in a word
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    const bool is_symbol = bytes_of_text_ || byte < 0x80;
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

// Where no merge ever joins something to a metaspace on its right (but for another metaspace), a text may be
// cut before every metaspace, and becomes words that are looked up, instead of one word as long as the text.
bool Bpe::may_be_cut_at_metaspace() const {
  if (bytes_of_text_ || symbols_.find(kMetaspace) == kNoToken) return false;
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
    const std::optional<std::string> word = bytes_of_text_ ? bytes_of_mapped(text) : text;
    if (!word || word->empty()) continue;
    ids.clear();
    encode_uncut(*word, ids, scratch);
    if (ids.size() == 1) whole.insert(*word, ids[0]);
  }
  whole_ = std::move(whole);
}

void Bpe::encode(std::string_view word, std::vector<Token>& out, MergeScratch& scratch) const {
  if (parts_.ignore_merges) {
    const Token id = symbols_.find(word);
    if (id != kNoToken) return out.push_back(id);
  }
  if (!cuts_at_metaspace_) return encode_uncut(word, out, scratch);
  std::size_t start = 0;
  for (std::size_t at = word.find(kMetaspace, 1); at != word.npos;
       at = word.find(kMetaspace, at + kMetaspace.size())) {
    if (at >= kMetaspace.size() && metaspace_at(word, at - kMetaspace.size())) continue;
    encode_uncut(word.substr(start, at - start), out, scratch);
    start = at;
  }
  encode_uncut(word.substr(start), out, scratch);
}

void Bpe::encode_uncut(std::string_view word, std::vector<Token>& out, MergeScratch& scratch) const {
  const Token id = whole_.find(word);
  if (id != kNoToken) return out.push_back(id);
  scratch.symbols.clear();
  start_symbols(word, scratch.symbols);
  merge_word(merges_, scratch);
  out.insert(out.end(), scratch.symbols.begin(), scratch.symbols.end());
}

bool Bpe::fall_back_to_bytes(std::string_view character, std::vector<Token>& symbols) const {
  const std::size_t before = symbols.size();
  // The bytes of the character that the file would show, also where it stands for a byte itself.
  for (const char byte : bytes_of_text_ ? map_bytes(character) : std::string(character)) {
    const Token id = fallback_[static_cast<unsigned char>(byte)];
    if (id == kNoToken) {
      symbols.resize(before);
      return false;
    }
    symbols.push_back(id);
  }
  return true;
}

// A character that is not in the vocabulary becomes its bytes, else the unknown token, else nothing. An
// unknown token waits until the next known character: several may fuse into one, and bytes overtake it, as in
// the original.
void Bpe::start_symbols(std::string_view word, std::vector<Token>& symbols) const {
  bool unknown_waits = false;
  const auto put_unknown = [&] {
    if (unknown_waits) symbols.push_back(*parts_.unknown);
    unknown_waits = false;
  };
  for (std::size_t at = 0; at < word.size();) {
    const auto lead = static_cast<unsigned char>(word[at]);
    const std::size_t length = bytes_of_text_ || lead < 0x80 ? 1 : code_point_at(word, at).length;
    const std::string_view character = word.substr(at, length);
    at += length;
    const Token id = length == 1 ? bytes_[lead] : symbols_.find(character);
    if (id != kNoToken) {
      put_unknown();
      symbols.push_back(id);
    } else if (!(parts_.byte_fallback && fall_back_to_bytes(character, symbols)) && parts_.unknown) {
      if (!parts_.fuse_unknown) put_unknown();
      unknown_waits = true;
    }
  }
  put_unknown();
}

}  // namespace dpo::text
