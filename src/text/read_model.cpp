#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/read_parts.h"

namespace dpo::text {
namespace {

// Twenty times the largest vocabulary in use. An id makes room in tables, so a wrong one must not fill the
// memory.
constexpr std::int64_t kLargestId = 5'000'000;

Token read_id(const JsonField& field) {
  const std::int64_t id = field.number();
  if (id < 0 || id > kLargestId) field.refuse(fmt::format("an id from 0 to {}", kLargestId));
  return static_cast<Token>(id);
}

void refuse_when_set(const JsonField& model, const std::string& name) {
  const auto field = model.find(name);
  if (!field || (field->is_string() && field->text().empty())) return;
  if (field->value().is_number() && field->value() == 0) return;
  field->refuse("null: this is not supported");
}

MergeText read_merge(const JsonField& field) {
  if (field.is_array()) {
    const std::vector<JsonField> pair = field.items();
    if (pair.size() != 2) field.refuse("a pair of tokens");
    return {pair[0].text(), pair[1].text()};
  }
  const std::string& text = field.text();
  const std::size_t space = text.find(' ');
  if (space == text.npos || text.find(' ', space + 1) != text.npos)
    field.refuse("two tokens with a space between them");
  return {text.substr(0, space), text.substr(space + 1)};
}

}  // namespace

Vocabulary read_vocabulary(const JsonField& vocab) {
  Vocabulary vocabulary;
  for (const auto& [text, field] : vocab.members()) vocabulary.emplace_back(text, read_id(field));
  std::sort(vocabulary.begin(), vocabulary.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto same = std::adjacent_find(vocabulary.begin(), vocabulary.end(),
                                       [](const auto& a, const auto& b) { return a.second == b.second; });
  if (same != vocabulary.end())
    throw UserError(fmt::format("{}: the tokens {} and {} have the same id {}", vocab.place(), same->first,
                                (same + 1)->first, same->second));
  if (vocabulary.empty()) vocab.refuse("at least one token");
  return vocabulary;
}

std::vector<Merge> resolve_merges(const std::vector<MergeText>& texts, const Vocabulary& vocabulary,
                                  const std::string& where) {
  StringMap ids(vocabulary.size());
  for (const auto& [text, id] : vocabulary) ids.insert(text, id);
  std::vector<Merge> merges;
  merges.reserve(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto find = [&](const std::string& token) {
      const Token id = ids.find(token);
      if (id == StringMap::kAbsent)
        throw UserError(fmt::format("{}: merge {} ({} {}) needs the token {}, which the vocabulary lacks",
                                    where, i + 1, texts[i].left, texts[i].right, token));
      return id;
    };
    merges.push_back({find(texts[i].left), find(texts[i].right), find(texts[i].left + texts[i].right)});
  }
  return merges;
}

BpeParts read_bpe(const JsonField& model) {
  const auto type = model.find("type");  // old files of BPE models have none
  if (type && type->text() != "BPE") type->refuse("BPE, the only model that is supported");
  for (const char* name : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"})
    refuse_when_set(model, name);
  BpeParts parts;
  parts.vocabulary = read_vocabulary(model.at("vocab"));
  std::vector<MergeText> merges;
  const JsonField list = model.at("merges");
  for (const JsonField& merge : list.items()) {
    if (merge.is_string() && merge.text().starts_with("#version")) continue;
    merges.push_back(read_merge(merge));
  }
  parts.merges = resolve_merges(merges, parts.vocabulary, list.place());
  if (const auto unknown = model.find("unk_token")) {
    for (const auto& [text, id] : parts.vocabulary)
      if (text == unknown->text()) parts.unknown = id;
    if (!parts.unknown) unknown->refuse("a token of model.vocab");
  }
  parts.fuse_unknown = model.flag_or("fuse_unk", false);
  parts.byte_fallback = model.flag_or("byte_fallback", false);
  parts.ignore_merges = model.flag_or("ignore_merges", false);
  return parts;
}

AddedToken read_added_token(const JsonField& field) {
  AddedToken token;
  token.content = field.at("content").text();
  if (token.content.empty()) field.at("content").refuse("a text that is not empty");
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
    given->field.refuse(fmt::format(
        "the id {}, {}", token.id,
        known == StringMap::kAbsent ? "the next behind the vocabulary" : "as the vocabulary says"));
  added_.insert(token.content, token.id);
  tokens_.push_back(std::move(token));
}

}  // namespace dpo::text
