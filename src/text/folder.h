#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "text/added_tokens.h"
#include "text/json_field.h"

namespace dpo::text {

// Reads each file of a tokenizer folder once. The fingerprint is a hash of everything that was read.
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

// The special tokens in tokenizer_config.json, special_tokens_map.json and added_tokens.json.
class SpecialTokenFiles {
 public:
  explicit SpecialTokenFiles(TokenizerFolder& folder);

  // Finds a token by its role: "bos_token", "eos_token", "pad_token", "unk_token". Returns nullopt if no file
  // names it.
  std::optional<SpecialToken> find(const std::string& role) const;

  bool flag(const std::string& name, bool fallback) const;  // from tokenizer_config.json

  // Adds the tokens that the files add to the vocabulary, in the order of their ids.
  void add_to(AddedTokens& added) const;

 private:
  std::optional<JsonFile> config_;
  std::optional<JsonFile> map_;
  std::optional<JsonFile> added_;
};

}  // namespace dpo::text
