// Makes small tokenizers as JSON of tokenizer.json, for tests and fuzz targets.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/byte_level.h"
#include "text/json_field.h"
#include "text/tokenizer_json.h"

namespace dpo::text::tiny {

using Json = nlohmann::json;

// The vocabulary has `alphabet` first, then the results of the merges.
inline Json bpe(const std::vector<std::string>& alphabet,
                const std::vector<std::pair<std::string, std::string>>& merges) {
  Json vocab = Json::object();
  Json list = Json::array();
  int next = 0;
  for (const std::string& token : alphabet) vocab[token] = next++;
  for (const auto& [left, right] : merges) {
    if (!vocab.contains(left + right)) vocab[left + right] = next++;
    list.push_back({left, right});
  }
  return {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}};
}

inline std::vector<std::string> all_bytes() {
  std::vector<std::string> alphabet;
  for (int byte = 0; byte < 256; ++byte)
    alphabet.push_back(to_byte_level(std::string(1, static_cast<char>(byte))));
  return alphabet;
}

inline Json split_by(const std::string& regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}

inline Json byte_level(bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

inline Json sequence(const std::string& list, const std::vector<Json>& steps) {
  return {{"type", "Sequence"}, {list, steps}};
}

inline Json added(int id, const std::string& content, bool special = true) {
  return {{"id", id},        {"content", content}, {"special", special},  {"normalized", !special},
          {"lstrip", false}, {"rstrip", false},    {"single_word", false}};
}

// Returns a tokenizer like GPT-2's, with a few merges.
inline Json gpt2(const std::vector<std::string>& alphabet = all_bytes()) {
  const std::string space = to_byte_level(" ");
  Json model =
      bpe(alphabet,
          {{"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}, {space, "w"}, {space, space}, {"1", "2"}});
  const int size = static_cast<int>(model["vocab"].size());
  return {{"version", "1.0"},
          {"added_tokens", {added(size, "<|end|>")}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level(true)},
          {"post_processor", byte_level(true)},
          {"decoder", byte_level(true)},
          {"model", model}};
}

// Returns a tokenizer like Llama's: ▁ for a space, and byte tokens for text outside the vocabulary.
inline Json llama(int bytes = 256) {
  std::vector<std::string> alphabet = {"<unk>", "<s>", "</s>"};
  for (int byte = 0; byte < bytes; ++byte) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    alphabet.push_back(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">");
  }
  for (const char* token : {"\u2581", "a", "b", "c", "é"}) alphabet.emplace_back(token);
  Json model = bpe(alphabet, {{"\u2581", "a"},
                              {"a", "b"},
                              {"\u2581a", "b"},
                              {"\u2581", "\u2581"},
                              {"\u2581\u2581", "\u2581\u2581"}});
  model["unk_token"] = "<unk>";
  model["fuse_unk"] = true;
  model["byte_fallback"] = true;
  const Json bos = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}};
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json space = {{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}};
  return {
      {"version", "1.0"},
      {"added_tokens", {added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")}},
      {"normalizer",
       sequence("normalizers",
                {{{"type", "Prepend"}, {"prepend", "\u2581"}},
                 {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}})},
      {"pre_tokenizer", nullptr},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single", {bos, text}},
        {"pair", {bos, text}},
        {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}}},
      {"decoder", sequence("decoders", {space,
                                        {{"type", "ByteFallback"}},
                                        {{"type", "Fuse"}},
                                        {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}})},
      {"model", model}};
}

inline std::unique_ptr<const Pipeline> load(const std::string& text) {
  const JsonFile file(text, "tokenizer.json");
  return std::make_unique<Pipeline>(read_tokenizer_json(file.root(), nullptr), "tokenizer.json");
}
inline std::unique_ptr<const Pipeline> load(const Json& json) { return load(json.dump()); }

inline std::vector<Token> encode(const Codec& codec, std::string_view text, bool special = false) {
  std::vector<Token> ids;
  codec.encode(text, special, ids);
  return ids;
}

}  // namespace dpo::text::tiny
