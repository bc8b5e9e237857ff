#include <algorithm>
#include <chrono>
#include <ctime>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/parallel.h"
#include "commands/commands.h"
#include "commands/fetch.h"
#include "commands/lines.h"
#include "text/tokenizer.h"

namespace dpo::commands {
namespace {

struct TokenizeArguments {
  std::string folder;
  bool decode = false;
  bool special = false;
  bool json = false;
  unsigned threads = 0;
  std::string bench_file;
};

std::string unquoted(std::string_view line, const std::string& file, std::size_t number) {
  const auto value = nlohmann::json::parse(line, nullptr, false);
  if (!value.is_string()) throw UserError(fmt::format("{}:{}: expected a JSON string", file, number));
  return value.get<std::string>();
}

std::string encode_line(const text::Tokenizer& tokenizer, const TokenizeArguments& arguments,
                        std::string_view line, std::size_t number) {
  std::string text;
  if (arguments.json) {
    text = unquoted(line, "stdin", number);
    line = text;
  }
  return fmt::format("[{}]\n", fmt::join(tokenizer.encode(line, arguments.special), ","));
}

std::string decode_line(const text::Tokenizer& tokenizer, const TokenizeArguments& arguments,
                        std::string_view line, std::size_t number) {
  const auto value = nlohmann::json::parse(line, nullptr, false);
  if (!value.is_array()) throw UserError(fmt::format("stdin:{}: expected a JSON array of ids", number));
  std::vector<text::Token> ids;
  for (const auto& id : value) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= static_cast<std::uint64_t>(tokenizer.size()))
      throw UserError(fmt::format("stdin:{}: {} is not a token id, expected 0 to {}", number,
                                  id.is_number() ? id.dump() : "one of the values", tokenizer.size() - 1));
    ids.push_back(id.get<text::Token>());
  }
  const std::string text = tokenizer.decode(ids, arguments.special);
  return (arguments.json ? nlohmann::json(text).dump() : text) + "\n";
}

std::size_t thread_count(const TokenizeArguments& arguments) {
  return arguments.threads > 0 ? arguments.threads : usable_cores();
}

int tokenize_lines(const text::Tokenizer& tokenizer, const TokenizeArguments& arguments) {
  LineReader reader;
  std::vector<std::string_view> lines;
  std::size_t done = 0;
  while (reader.next_batch(lines)) {
    std::vector<std::string> answers(lines.size());
    const auto answer = [&](std::size_t i) {
      answers[i] = arguments.decode ? decode_line(tokenizer, arguments, lines[i], done + i + 1)
                                    : encode_line(tokenizer, arguments, lines[i], done + i + 1);
    };
    for_each_parallel(lines.size(), answer, thread_count(arguments));
    print_lines(answers);
    done += lines.size();
  }
  return 0;
}

// Measures only encoding, without start-up, input and output.
int measure(const text::Tokenizer& tokenizer, const TokenizeArguments& arguments) {
  const std::string text = read_text_file(arguments.bench_file, "--bench", std::size_t{4} << 30);
  std::vector<std::string> lines;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view line = std::string_view(text).substr(start, end - start);
    lines.push_back(arguments.json ? unquoted(line, arguments.bench_file, lines.size() + 1)
                                   : std::string(line));
    start = end + 1;
  }
  std::vector<std::vector<text::Token>> ids(lines.size());
  const auto before = std::chrono::steady_clock::now();
  const std::clock_t cpu_before = std::clock();
  for_each_parallel(
      lines.size(), [&](std::size_t i) { ids[i] = tokenizer.encode(lines[i]); }, thread_count(arguments));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - before;
  const double cpu_seconds = static_cast<double>(std::clock() - cpu_before) / CLOCKS_PER_SEC;
  std::size_t bytes = 0, tokens = 0;
  for (const std::string& line : lines) bytes += line.size();
  for (const auto& list : ids) tokens += list.size();
  fmt::print("{}\n", nlohmann::json{{"bytes", bytes},
                                    {"tokens", tokens},
                                    {"threads", thread_count(arguments)},
                                    {"seconds", elapsed.count()},
                                    {"cpu_seconds", cpu_seconds}}
                         .dump());
  return 0;
}

int run_tokenize(const TokenizeArguments& arguments) {
  const text::Tokenizer tokenizer = text::Tokenizer::load(tokenizer_folder_of(arguments.folder));
  return arguments.bench_file.empty() ? tokenize_lines(tokenizer, arguments) : measure(tokenizer, arguments);
}

void describe(CLI::App& command, TokenizeArguments& arguments) {
  command.description("convert lines of text to JSON arrays of token ids, and back");
  takes_path(command.add_option("DIR", arguments.folder,
                                "tokenizer folder, or model name ORG/NAME on the Hugging Face hub"))
      ->required();
  command.add_flag("--decode", arguments.decode, "convert token ids to text");
  command.add_flag("--special", arguments.special,
                   "add the tokenizer's special tokens (BOS and others); with --decode: skip special "
                   "tokens, as skip_special_tokens=True");
  command.add_flag("--json", arguments.json,
                   "lines of text are JSON strings, which can contain any character");
  command.add_option("--threads", arguments.threads, "number of threads (default: one per core)")
      ->type_name("N");
  // Used by benchmarks/tokenizers_speed.py.
  command.add_option("--bench", arguments.bench_file, "encode the lines of FILE and print how long it took")
      ->type_name("FILE")
      ->group("");
  command.footer("Invalid UTF-8 is replaced by U+FFFD.");
}

}  // namespace

Command tokenize_command() { return make_command<TokenizeArguments>("tokenize", run_tokenize); }

}  // namespace dpo::commands
