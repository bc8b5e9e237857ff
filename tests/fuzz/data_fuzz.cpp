// One input is a file of rows: JSON lines, a JSON array or CSV. Whatever it holds, only a UserError may
// escape, its message must be one printable line, skipping bad rows must give no error where only rows are
// bad, and every prompt that comes out must be whole: valid UTF-8, with pairs that name its responses.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/utf8.h"
#include "config/text.h"
#include "data/formats.h"
#include "data/rows.h"
#include "data_fuzz.h"
#include "memory_file.h"

namespace {

using dpo::data::BadRows;
using dpo::data::PromptText;
using dpo::data::PromptTexts;
using dpo::data::Value;

[[noreturn]] void fail(const char* what, const std::string& detail) {
  std::fprintf(stderr, "data_fuzz: %s: %s\n", what, detail.c_str());
  std::abort();
}

void read(RowFormat format, const std::filesystem::path& file, const dpo::data::TakeRow& take, BadRows& bad) {
  switch (format) {
    case RowFormat::JsonLines: return dpo::data::read_json_lines(file, take, bad);
    case RowFormat::JsonArray: return dpo::data::read_json_array(file, take, bad);
    case RowFormat::Csv: return dpo::data::read_csv(file, take, bad);
  }
}

void check_message(const std::string& message) {
  if (message.empty() || message.find('\n') != std::string::npos ||
      dpo::config::first_bad_byte(message) != std::string::npos)
    fail("a message that is not one printable line", message);
}

void check_text(const std::string& text) {
  if (dpo::first_invalid_utf8(text) != text.size()) fail("a text that is not UTF-8", text);
}

void check_prompt(const PromptText& prompt) {
  check_text(prompt.prompt);
  for (const std::string& response : prompt.responses) check_text(response);
  if (prompt.responses.empty() || prompt.sft_target >= prompt.responses.size())
    fail("no target", prompt.prompt);
  for (const auto& pair : prompt.pairs)
    if (std::max(pair.better, pair.worse) >= prompt.responses.size())
      fail("a pair of nothing", prompt.prompt);
  for (const auto& ranking : prompt.rankings)
    if (ranking.responses.size() < 2 || std::ranges::max(ranking.responses) >= prompt.responses.size() ||
        !(ranking.weight >= 0))
      fail("a ranking of nothing", prompt.prompt);
}

// A row means something to each kind of data set, or is refused by it.
void add_everywhere(const Value& row, PromptTexts& texts) {
  const auto attempt = [&](auto add) {
    try {
      add(Value(row));
    } catch (const dpo::data::BadRow& problem) {
      check_message(problem.what());
    }
  };
  attempt([&](Value&& copy) { add_hh_row(std::move(copy), texts); });
  attempt([&](Value&& copy) { add_shp_row(std::move(copy), texts); });
  attempt([&](Value&& copy) { add_se_row(std::move(copy), texts); });
  attempt([&](Value&& copy) { add_row_by_columns(std::move(copy), {}, texts); });
  attempt([&](Value&& copy) { add_row_by_columns(std::move(copy), {{"prompt", "question"}}, texts); });
}

}  // namespace

bool try_rows(RowFormat format, std::string_view input) {
  const fuzz::MemoryFile file(input);
  PromptTexts texts;
  BadRows bad(true);
  try {
    read(
        format, file.path(),
        [&](Value&& row) {
          add_everywhere(row, texts);
          return true;
        },
        bad);
  } catch (const dpo::UserError& error) {
    check_message(error.what());
    if (format == RowFormat::JsonLines) fail("a bad line was not skipped", error.what());
  }
  for (const std::string& example : bad.examples()) check_message(example);
  const auto prompts = std::move(texts).take();
  for (const PromptText& prompt : prompts) check_prompt(prompt);
  return !prompts.empty();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  try_rows(static_cast<RowFormat>(data[0] % 3), input);
  return 0;
}
