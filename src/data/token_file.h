#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "base/files.h"
#include "base/output_files.h"
#include "base/sha256.h"
#include "data/example.h"
#include "data/source.h"
#include "data/texts.h"

namespace dpo::data {

// Properties that are stored for each text.
enum TextFlags : std::uint8_t {
  kHasEos = 1,   // the end-of-text token occurs in the text itself
  kIsEmpty = 2,  // it has no tokens
  // Only in chats:
  kTurnsDropped = 4,  // turns were dropped from the prompt's start, because it was too long
  // The rendered prompt is not a prefix of prompt and response, which are divided after their common tokens.
  kBoundaryMoved = 8,
  kEndAdded = 16,  // the template writes no end of the turn, so the end-of-text token was added
  kRefused = 32,   // the template rejects the conversation; an empty entry keeps the numbers of later prompts
};

// A label as it is stored in the file, without padding.
struct StoredLabel {
  std::uint32_t response = 0;
  std::uint32_t desirable = 1;
  float weight = 1;
};

// The tokens of one source, not truncated, in one memory-mapped file: prompts and their responses, each
// response with its end-of-text token.
//
// The file consists of a line with format and key, a line that describes its purpose, tokens, tables, and a
// footer with all sizes and the SHA-256 of everything before it. `dpo cache` does not remove the file while
// it is open.
class TokenFile {
 public:
  // Returns nullopt if there is no such file. Also returns nullopt, with the reason in `why`, if it has
  // another key or is damaged.
  static std::optional<TokenFile> open(const std::filesystem::path& path, const std::string& key,
                                       std::string& why);

  std::uint32_t prompts() const { return static_cast<std::uint32_t>(targets_.size()); }
  std::int64_t rows() const { return rows_; }
  std::int64_t bad_rows() const { return bad_rows_; }
  std::vector<std::string> notes() const;  // notes about the rows

  // Returns a hash of a prompt and its responses as the files have them. It does not depend on the tokenizer
  // or the template.
  std::uint64_t text_hash(std::uint32_t prompt) const { return text_hashes_[prompt]; }
  std::span<const Token> prompt(std::uint32_t prompt) const { return text(first_texts_[prompt]); }
  std::uint32_t responses(std::uint32_t prompt) const {
    return first_texts_[prompt + 1] - first_texts_[prompt] - 1;
  }
  std::span<const Token> response(std::uint32_t prompt, std::uint32_t i) const {
    return text(first_texts_[prompt] + 1 + i);
  }
  std::uint8_t prompt_flags(std::uint32_t prompt) const { return flags_[first_texts_[prompt]]; }
  std::uint8_t response_flags(std::uint32_t prompt, std::uint32_t i) const {
    return flags_[first_texts_[prompt] + 1 + i];
  }
  std::span<const Pair> pairs(std::uint32_t prompt) const {
    return pairs_.subspan(first_pairs_[prompt], first_pairs_[prompt + 1] - first_pairs_[prompt]);
  }
  std::uint32_t rankings(std::uint32_t prompt) const {
    return first_rankings_[prompt + 1] - first_rankings_[prompt];
  }
  Ranking ranking(std::uint32_t prompt, std::uint32_t i) const {
    const std::uint32_t at = first_rankings_[prompt] + i;
    const auto responses = ranked_.subspan(ranked_starts_[at], ranked_starts_[at + 1] - ranked_starts_[at]);
    return {{responses.begin(), responses.end()}, ranking_weights_[at]};
  }
  std::span<const Label> labels(std::uint32_t prompt) const {
    return std::span(labels_).subspan(first_labels_[prompt],
                                      first_labels_[prompt + 1] - first_labels_[prompt]);
  }
  // Returns the tokens of a response that are not scored, as ascending ranges.
  std::span<const TokenRange> unscored(std::uint32_t prompt, std::uint32_t i) const {
    return ranges(first_texts_[prompt] + 1 + i);
  }
  std::uint32_t sft_target(std::uint32_t prompt) const { return targets_[prompt]; }

 private:
  explicit TokenFile(const std::filesystem::path& path)
      : lock_(path, FileLock::Kind::shared), file_(path, "token cache") {}
  bool read_tables(std::string& why);
  bool tables_agree() const;
  std::span<const Token> text(std::uint32_t i) const {
    return tokens_.subspan(starts_[i], starts_[i + 1] - starts_[i]);
  }
  std::span<const TokenRange> ranges(std::uint32_t i) const {
    return ranges_.subspan(first_ranges_[i], first_ranges_[i + 1] - first_ranges_[i]);
  }

  FileLock lock_;
  MappedFile file_;
  std::span<const Token> tokens_;
  std::span<const std::uint64_t> starts_;       // [texts + 1], into tokens_
  std::span<const std::uint64_t> text_hashes_;  // [prompts]
  std::span<const std::uint32_t> first_texts_;  // [prompts + 1]: the prompt itself, then its responses
  std::span<const std::uint32_t> first_pairs_;  // [prompts + 1], into pairs_
  std::span<const std::uint32_t> targets_;      // [prompts]
  std::span<const Pair> pairs_;
  std::span<const std::uint32_t> first_rankings_;  // [prompts + 1], into the two below
  std::span<const std::uint32_t> ranked_starts_;   // [rankings + 1], into ranked_
  std::span<const float> ranking_weights_;         // [rankings]
  std::span<const std::uint32_t> ranked_;          // responses, the best first
  std::span<const std::uint32_t> first_labels_;    // [prompts + 1], into labels_
  std::vector<Label> labels_;                      // copied: a damaged file may have invalid bools
  std::span<const std::uint32_t> first_ranges_;    // [texts + 1], into ranges_
  std::span<const TokenRange> ranges_;             // tokens that are not scored
  std::span<const std::uint8_t> flags_;            // [texts]
  std::span<const char> notes_;                    // text lines
  std::int64_t rows_ = 0;
  std::int64_t bad_rows_ = 0;
};

// Writes a token file, prompt by prompt. The file appears when finish() is called.
class TokenFileWriter {
 public:
  // `about` describes the purpose of the file on one line, which is cut if it is long.
  TokenFileWriter(const std::filesystem::path& path, const std::string& key, const std::string& about);

  void begin_prompt(const PromptText& prompt);  // must be followed by add_text for each of its texts
  // Adds the prompt, then its responses. `unscored`: ascending ranges of a response that do not overlap.
  void add_text(std::span<const Token> tokens, std::uint8_t flags, std::span<const TokenRange> unscored = {});
  void finish(const SourceTexts& read);

 private:
  void write(std::span<const std::byte> bytes);
  template <class T>
  void write_table(const std::vector<T>& table) {
    write(std::as_bytes(std::span(table)));
  }

  AtomicFile file_;
  Sha256 hash_;
  std::vector<Token> tokens_;  // not written yet
  std::uint64_t token_count_ = 0;
  std::vector<std::uint64_t> starts_ = {0};
  std::vector<std::uint64_t> text_hashes_;
  std::vector<std::uint32_t> first_texts_;
  std::vector<std::uint32_t> first_pairs_;
  std::vector<std::uint32_t> targets_;
  std::vector<Pair> pairs_;
  std::vector<std::uint32_t> first_rankings_;
  std::vector<std::uint32_t> ranked_starts_ = {0};
  std::vector<float> ranking_weights_;
  std::vector<std::uint32_t> ranked_;
  std::vector<std::uint32_t> first_labels_;
  std::vector<StoredLabel> labels_;
  std::vector<std::uint32_t> first_ranges_ = {0};
  std::vector<TokenRange> ranges_;
  std::vector<std::uint8_t> flags_;
};

}  // namespace dpo::data
