#include "data/token_cache.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/output_files.h"
#include "base/parallel.h"
#include "base/quantity.h"
#include "config/text.h"
#include "data/chat.h"
#include "data/loader.h"
#include "data/tokenized_prompt.h"
#include "text/jinja/builtins.h"

namespace dpo::data {
namespace {

namespace fs = std::filesystem;

// Returns the cache key, which contains everything that the tokens depend on.
std::string key_of(const Source& source, const config::RunConfig& config, const text::Tokenizer& tokenizer,
                   const std::optional<ChatTokenizer>& chat) {
  std::string parts =
      fmt::format("format {} split {} eos {} on_error {}\n", static_cast<int>(source.format),
                  static_cast<int>(source.split), end_of_text(tokenizer), name_of(config.data.on_error));
  parts += "tokenizer " + tokenizer.fingerprint() + "\n";
  if (chat) parts += chat->key();
  if (const auto limit = config.data.limits.find(source.name); limit != config.data.limits.end())
    parts += fmt::format("limit {}\n", limit->second);
  if (source.by_hash)
    parts += config.data.test_share ? fmt::format("test_share {}\n", *config.data.test_share)
                                    : "test_share null\n";
  if (source.format == Source::Format::Columns)
    for (const auto& [ours, theirs] : config.data.columns)
      parts += fmt::format("column {} {}\n", ours, theirs);
  std::vector<Sha256::Sum> sums(source.files.size());
  for_each_parallel(sums.size(), [&](std::size_t i) { sums[i] = sha256_of_file(source.files[i]); });
  // The file name determines the format, so it is part of the key. The folder is not.
  for (std::size_t i = 0; i < sums.size(); ++i)
    parts += fmt::format("file {} {}\n", to_hex(sums[i]), source.files[i].filename().string());
  Sha256 hash;
  hash.add(parts);
  return to_hex(hash.finish());
}

// Describes the tokens for `dpo cache`.
std::string about(const Source& source, const config::RunConfig& config) {
  return fmt::format("{} of {}, in tokens of {}", source.split == Split::Train ? "train" : "test",
                     config::shown(source.name),
                     config.model.tokenizer_name_or_path.value_or(config.model.name_or_path));
}

// Writes an empty prompt in place of a rejected one, so that later prompts keep their numbers, on which the
// order of an epoch depends.
void write_rejected(TokenFileWriter& writer) {
  PromptText empty;
  empty.responses.emplace_back();
  writer.begin_prompt(empty);
  writer.add_text({}, kRefused);
  writer.add_text({}, 0);
}

// Writes the tokens of all prompts. A conversation that the template rejects is a bad row.
void write_tokens(SourceTexts& read, const Source& source, const text::Tokenizer& tokenizer,
                  const std::optional<ChatTokenizer>& chat, BadRows& bad, TokenFileWriter& writer,
                  const TokenizeProgress& progress) {
  constexpr std::size_t kBlock = 4096;  // prompts that are tokenized at a time
  const Token eos = end_of_text(tokenizer);
  const std::vector<PromptText>& prompts = read.prompts;
  std::size_t begin = 0, written = 0;
  const auto next_block = [&]() -> std::optional<std::vector<TokenizedPrompt>> {
    if (begin == prompts.size()) return std::nullopt;
    std::vector<TokenizedPrompt> block(std::min(kBlock, prompts.size() - begin));
    for_each_parallel(block.size(), [&](std::size_t i) {
      block[i] = tokenize_prompt(prompts[begin + i], tokenizer, chat, eos);
    });
    begin += block.size();
    return block;
  };
  Loader<std::vector<TokenizedPrompt>> blocks(next_block, 1);  // tokenizes the next while one is written
  while (const std::optional<std::vector<TokenizedPrompt>> block = blocks.next()) {
    for (const TokenizedPrompt& made : *block) {
      const PromptText& prompt = prompts[written++];
      for (const auto& [row, problem] : made.refused) bad.add(source.files.at(row.file), row.line, problem);
      if (made.texts.empty()) {
        write_rejected(writer);
        continue;
      }
      writer.begin_prompt(made.text_of(prompt));
      for (const TokenizedText& text : made.texts) writer.add_text(text.tokens, text.flags, text.unscored);
    }
    if (progress)
      progress(source.name, static_cast<std::int64_t>(written), static_cast<std::int64_t>(prompts.size()));
  }
  read.rows -= bad.count();
  read.bad_rows += bad.count();
  read.bad_examples.insert(read.bad_examples.end(), bad.examples().begin(), bad.examples().end());
  writer.finish(read);
}

void note_bad_rows(const Source& source, const SourceTexts& texts, std::vector<std::string>& notes) {
  if (texts.bad_rows == 0) return;
  notes.push_back(fmt::format("{}: skipped {} that cannot be read; the first:", config::shown(source.name),
                              plural(texts.bad_rows, "row")));
  notes.insert(notes.end(), texts.bad_examples.begin(), texts.bad_examples.end());
}

// Returns a note with the name of the template, so that the user notices a wrong one.
std::string chat_note(const ChatTokenizer& chat) {
  std::string note =
      fmt::format("rendered with the chat template {}", config::shown(chat.chat_template().name()));
  if (chat.writes_date())
    note += fmt::format(
        "; it contains the current date ({}); for a fixed date, set chat_template_kwargs={{date_string: "
        "\"26 Jul 2024\"}} if the template supports that",
        text::jinja::strftime_now("%d %b %Y"));
  return note;
}

fs::path path_of(const std::string& key, const TokenCache& cache) {
  return cache.folder / (key.substr(0, 32) + ".tokens");
}

// Opens a cached file. Files of other users are not trusted.
std::optional<TokenFile> open_own(const fs::path& path, const std::string& key, std::string& why) {
  std::error_code none;
  if (is_own(path) && is_own(path.parent_path())) {
    mark_used(path);
    return TokenFile::open(path, key, why);
  }
  if (fs::exists(path, none)) why = "another user's";
  return std::nullopt;
}

// Adds the notes that the token file has about the rows of a source.
TokenFile with_notes(TokenFile file, const Source& source, TokenCache& cache) {
  for (const std::string& note : file.notes())
    cache.notes.push_back(fmt::format("{}: {}", config::shown(source.name), note));
  return file;
}

}  // namespace

text::Token end_of_text(const text::Tokenizer& tokenizer) {
  if (const auto eos = tokenizer.eos()) return *eos;
  // A tokenizer.json alone does not say which token ends a text. In the supported families it is one of
  // these.
  for (const char* name : {"<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>"})
    if (const auto id = tokenizer.id_of(name)) return *id;
  throw UserError(
      "the tokenizer has no end-of-text token, which must end every response; add a tokenizer_config.json or "
      "special_tokens_map.json with an eos_token to its folder");
}

std::optional<TokenFile> find_tokens(const Source& source, const config::RunConfig& config,
                                     const text::Tokenizer& tokenizer, TokenCache& cache) {
  const std::optional<ChatTokenizer> chat = chat_of(source, config, tokenizer);
  const std::string key = key_of(source, config, tokenizer, chat);
  std::string why;
  std::optional<TokenFile> file = open_own(path_of(key, cache), key, why);
  if (!file) return std::nullopt;
  return with_notes(std::move(*file), source, cache);
}

TokenFile load_tokens(const Source& source, const config::RunConfig& config, const text::Tokenizer& tokenizer,
                      TokenCache& cache) {
  const std::optional<ChatTokenizer> chat = chat_of(source, config, tokenizer);
  const std::string key = key_of(source, config, tokenizer, chat);
  const fs::path path = path_of(key, cache);
  std::string why;
  if (auto file = open_own(path, key, why)) return with_notes(std::move(*file), source, cache);

  make_own_folder(cache.folder);
  const FileLock lock(lock_of(path), FileLock::Kind::exclusive);
  if (auto file = open_own(path, key, why))  // another process may have made it in the meantime
    return with_notes(std::move(*file), source, cache);
  if (!why.empty())
    cache.notes.push_back(fmt::format("{}: the cached tokens are {}; tokenizing again", path.string(), why));
  {
    SourceTexts texts = read_source(source, config);
    if (chat) texts.notes.push_back(chat_note(*chat));
    BadRows bad(config.data.on_error == config::BadRowPolicy::skip);
    TokenFileWriter writer(path, key, about(source, config));
    write_tokens(texts, source, tokenizer, chat, bad, writer, cache.progress);
    note_bad_rows(source, texts, cache.notes);
  }
  if (auto file = open_own(path, key, why)) return with_notes(std::move(*file), source, cache);
  throw UserError(fmt::format("{}: cannot be read back right after writing ({}); check the disk",
                              path.string(), why.empty() ? "not found" : why));
}

}  // namespace dpo::data
