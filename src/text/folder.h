#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/json_field.h"

namespace dpo::text {

// The files of a tokenizer folder, each read once. The fingerprint is a hash of all that was read.
class TokenizerFolder {
 public:
  explicit TokenizerFolder(std::filesystem::path folder);

  bool has(const std::string& name) const;
  const std::string& read(const std::string& name);
  std::optional<JsonFile> read_json_if_present(const std::string& name);
  std::string path_of(const std::string& name) const { return (folder_ / name).string(); }

  std::string fingerprint() const;

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::string> contents_;
};

// A special token's text and the field that names it.
struct SpecialToken {
  AddedToken token;
  JsonField field;
};

// What tokenizer_config.json, special_tokens_map.json and added_tokens.json say about special tokens.
class SpecialTokenFiles {
 public:
  explicit SpecialTokenFiles(TokenizerFolder& folder);

  // By role: "bos_token", "eos_token", "pad_token", "unk_token". Empty if no file names it.
  std::optional<SpecialToken> find(const std::string& role) const;

  bool flag(const std::string& name, bool fallback) const;  // of tokenizer_config.json

  // Tokens that the files add to the vocabulary, by their ids.
  void add_to(AddedTokens& added) const;

 private:
  std::optional<JsonFile> config_;
  std::optional<JsonFile> map_;
  std::optional<JsonFile> added_;
};

}  // namespace dpo::text
