#include "demo/files.h"

#include <nlohmann/json.hpp>

#include "base/output_files.h"
#include "text/byte_level.h"

namespace dpo::demo {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kEndOfText = "<|endoftext|>";

ordered_json row_of(const Conversation& talk) {  // a ranking with one response
  return {{"prompt", talk.request.prompt}, {"responses", {talk.reply}}, {"scores", {1}}};
}

ordered_json row_of(const Preference& pair) {
  return {{"prompt", pair.request.prompt}, {"chosen", pair.chosen}, {"rejected", pair.rejected}};
}

template <typename Row>
void write_rows(const fs::path& path, const std::vector<Row>& rows) {
  std::string lines;
  for (const Row& row : rows) lines += row_of(row).dump() + "\n";
  write_file(path, lines);
}

// Returns a byte-level tokenizer with one token for each word of the task. Other words are split into bytes.
ordered_json tokenizer() {
  ordered_json vocabulary;
  const auto add = [&](const std::string& name) { vocabulary.emplace(name, vocabulary.size()); };
  for (int byte = 0; byte < 256; ++byte) add(text::to_byte_level(std::string(1, static_cast<char>(byte))));
  for (const std::string& word : words_of_task()) add(text::to_byte_level(word));
  add(kEndOfText);
  const ordered_json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return {
      {"version", "1.0"},
      {"added_tokens",
       {{{"id", vocabulary.size() - 1},
         {"content", kEndOfText},
         {"special", true},
         {"single_word", false},
         {"lstrip", false},
         {"rstrip", false},
         {"normalized", false}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model",
       {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", ordered_json::array()}, {"ignore_merges", true}}}};
}

ordered_json config(std::size_t vocabulary) {
  return {{"architectures", {"GPTNeoXForCausalLM"}},
          {"model_type", "gpt_neox"},
          {"num_hidden_layers", 2},
          {"hidden_size", 128},
          {"intermediate_size", 512},
          {"num_attention_heads", 4},
          {"max_position_embeddings", 128},
          {"vocab_size", vocabulary},
          {"eos_token_id", vocabulary - 1},
          {"tie_word_embeddings", false}};
}

}  // namespace

void write_files(const fs::path& folder, const Task& task) {
  for (const char* name : {"conversations", "preferences", "blank"}) fs::create_directories(folder / name);
  write_rows(folder / "conversations" / "train.jsonl", task.conversations);
  write_rows(folder / "conversations" / "test.jsonl", task.held_out_conversations);
  write_rows(folder / "preferences" / "train.jsonl", task.preferences);
  write_rows(folder / "preferences" / "test.jsonl", task.held_out_preferences);
  const ordered_json made = tokenizer();
  const fs::path blank = folder / "blank";
  write_file(blank / "tokenizer.json", made.dump(1));
  write_file(blank / "tokenizer_config.json",
             ordered_json{{"tokenizer_class", "PreTrainedTokenizerFast"}, {"eos_token", kEndOfText}}.dump(1));
  write_file(blank / "config.json", config(made["model"]["vocab"].size()).dump(1));
}

}  // namespace dpo::demo
