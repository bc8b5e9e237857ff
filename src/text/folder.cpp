#include "text/folder.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/sha256.h"

namespace dpo::text {
namespace {

constexpr std::size_t kLargestFile = 256u << 20;  // several times the largest tokenizer.json in use

// Must be changed when the same files give other ids than before, to invalidate caches of ids.
constexpr std::string_view kEncodingVersion = "1";

// Hashes the size first, so that the boundary between parts is hashed too.
void add_part(Sha256& hash, std::string_view bytes) {
  hash.add(fmt::format("{}:", bytes.size()));
  hash.add(bytes);
}

// Returns the members of an object that maps tokens to ids, or ids to tokens, ordered by id.
template <typename IdOf>
std::vector<std::pair<std::string, JsonField>> by_id(const JsonField& object, const IdOf& id_of) {
  auto members = object.members();
  std::stable_sort(members.begin(), members.end(),
                   [&](const auto& a, const auto& b) { return id_of(a) < id_of(b); });
  return members;
}

std::int64_t id_in_name(const std::pair<std::string, JsonField>& member) {
  const std::string& name = member.first;
  if (name.empty() || name.size() > 9 || name.find_first_not_of("0123456789") != name.npos)
    member.second.refuse("an id as its key");
  return std::stoll(name);
}

}  // namespace

TokenizerFolder::TokenizerFolder(std::filesystem::path folder) : folder_(std::move(folder)) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder_, ignored))
    throw UserError(
        fmt::format("tokenizer: {} is not a folder; expected one with a tokenizer.json, or vocab.json and "
                    "merges.txt, or tokenizer.model",
                    folder_.string()));
}

bool TokenizerFolder::has(const std::string& name) const {
  std::error_code ignored;
  return std::filesystem::exists(folder_ / name, ignored);
}

const std::string& TokenizerFolder::read(const std::string& name) {
  const auto known = contents_.find(name);
  if (known != contents_.end()) return known->second;
  return contents_[name] = read_text_file(folder_ / name, "tokenizer", kLargestFile);
}

std::optional<JsonFile> TokenizerFolder::read_json_if_present(const std::string& name) {
  if (!has(name)) return std::nullopt;
  return JsonFile(read(name), path_of(name));
}

std::string TokenizerFolder::fingerprint() const {
  Sha256 hash;
  add_part(hash, kEncodingVersion);
  for (const auto& [name, content] : contents_) {
    add_part(hash, name);
    add_part(hash, content);
  }
  return to_hex(hash.finish());
}

SpecialTokenFiles::SpecialTokenFiles(TokenizerFolder& folder)
    : config_(folder.read_json_if_present("tokenizer_config.json")),
      map_(folder.read_json_if_present("special_tokens_map.json")),
      added_(folder.read_json_if_present("added_tokens.json")) {
  // A newer config lists its added tokens itself and makes the other files obsolete.
  if (config_ && config_->root().find("added_tokens_decoder")) {
    map_.reset();
    added_.reset();
  }
}

std::optional<SpecialToken> SpecialTokenFiles::find(const std::string& role) const {
  for (const std::optional<JsonFile>* file : {&map_, &config_}) {
    if (!*file) continue;
    const auto field = (*file)->root().find(role);
    if (!field) continue;
    AddedToken token;
    if (field->is_object()) {
      token = read_added_token(*field);
    } else {
      token.content = field->text();
      token.normalized = false;
    }
    token.special = true;
    return SpecialToken{token, *field};
  }
  return std::nullopt;
}

bool SpecialTokenFiles::flag(const std::string& name, bool fallback) const {
  return config_ ? config_->root().flag_or(name, fallback) : fallback;
}

void SpecialTokenFiles::add_to(AddedTokens& added) const {
  if (const auto decoder = config_ ? config_->root().find("added_tokens_decoder") : std::nullopt)
    for (const auto& member : by_id(*decoder, id_in_name))
      added.add(read_added_token(member.second), AddedTokens::Given{id_in_name(member), member.second});
  if (!added_) return;
  const auto id = [](const auto& member) { return member.second.number(); };
  for (const auto& [content, field] : by_id(added_->root(), id)) {
    AddedToken token;
    token.content = content;
    if (!content.empty()) added.add(std::move(token), AddedTokens::Given{field.number(), field});
  }
}

}  // namespace dpo::text
