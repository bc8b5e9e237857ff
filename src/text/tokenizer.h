// text contains tokenizers and chat templates of Hugging Face folders. Tokenizers give the same
// ids as the Python `tokenizers` library.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::text {

using Token = std::int32_t;

// A tokenizer. It is immutable after loading; encode and decode may be called from many threads at once.
class Tokenizer {
 public:
  // Loads a folder: tokenizer.json, else vocab.json and merges.txt, else tokenizer.model. Throws a UserError
  // that names file and field for an unsupported feature.
  static Tokenizer load(const std::filesystem::path& folder);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // With `special`, the post-processor adds its tokens (BOS and the like).
  std::vector<Token> encode(std::string_view text, bool special = false) const;

  // Encodes texts that begin alike, such as a conversation and its continuations. Segments between added
  // tokens that they share from the start are encoded once. Each result equals encode(text).
  std::vector<std::vector<Token>> encode_alike(std::span<const std::string_view> texts) const;

  // With `skip_special`, special tokens are skipped.
  std::string decode(std::span<const Token> ids, bool skip_special = false) const;

  std::optional<Token> bos() const;
  std::optional<Token> eos() const;
  std::optional<Token> pad() const;
  std::optional<Token> id_of(std::string_view token) const;
  std::string token_of(Token id) const;
  bool is_special(Token id) const;
  std::int64_t size() const;  // the largest id + 1

  const std::filesystem::path& folder() const;  // the folder that it was loaded from

  // Returns a hash of everything that encoding depends on. It is a part of the key of token caches.
  const std::string& fingerprint() const;

 private:
  struct Parts;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace dpo::text
