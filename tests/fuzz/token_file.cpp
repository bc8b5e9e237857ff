// An input is a file of cached tokens, mostly with a correct hash, so that more than the hash is tested. The
// file is rejected, or everything in it can be read.
#include "data/token_file.h"
#include "base/sha256.h"
#include "memory_file.h"
#include "target.h"
#include "temp_folder.h"

namespace fuzz::token_file {
namespace {

using namespace std::string_literals;

constexpr const char* kKey = "key";
constexpr std::size_t kSum = sizeof(dpo::Sha256::Sum);

void read_all(const dpo::data::TokenFile& file) {
  std::int64_t sum = 0;
  const auto add = [&](std::span<const dpo::data::Token> tokens) {
    for (const dpo::data::Token token : tokens) sum += token;
  };
  for (std::uint32_t p = 0; p < file.prompts(); ++p) {
    add(file.prompt(p));
    sum += file.prompt_flags(p) + file.sft_target(p);
    for (std::uint32_t i = 0; i < file.responses(p); ++i) {
      add(file.response(p, i));
      sum += file.response_flags(p, i);
      std::uint32_t end = 0;
      for (const auto& range : file.unscored(p, i)) {
        if (range.begin < end || range.end < range.begin) fail("ranges that overlap");
        end = range.end;
      }
      if (end > file.response(p, i).size()) fail("a range beyond its response");
    }
    for (const auto& label : file.labels(p))
      if (label.response >= file.responses(p)) fail("a label without its response");
    for (const auto& pair : file.pairs(p))
      if (std::max(pair.chosen, pair.rejected) >= file.responses(p)) fail("a pair without its responses");
    for (std::uint32_t i = 0; i < file.rankings(p); ++i)
      for (const auto response : file.ranking(p, i).responses)
        if (response >= file.responses(p)) fail("a ranking without its responses");
  }
  for (const std::string& note : file.notes()) sum += static_cast<std::int64_t>(note.size());
  [[maybe_unused]] static volatile std::int64_t kept;  // keeps the reads from being optimized away
  kept = sum;
}

bool try_input(std::string_view input) {
  const MemoryFile path(input);
  std::string why;
  const auto file = dpo::data::TokenFile::open(path.path(), kKey, why);
  if (!file && why.empty()) fail("refused without a reason");
  if (file) read_all(*file);
  return file.has_value();
}

std::string seed() {
  const TempFolder folder;
  dpo::data::TokenFileWriter writer(folder.path() / "tokens", kKey, "about");
  const std::vector<dpo::data::Token> tokens{1, 2, 3, 4, 5};
  for (std::uint32_t p = 0; p < 3; ++p) {
    dpo::data::PromptText prompt;
    prompt.responses.resize(2 + p);
    prompt.pairs = {{0, 1}};
    prompt.rankings = {{{1, 0}, 1.0f}};
    prompt.labels = {{p, p == 1, 0.5f}};
    prompt.sft_target = p;
    writer.begin_prompt(prompt);
    for (std::size_t text = 0; text <= prompt.responses.size(); ++text)
      writer.add_text(std::span(tokens).first((p + text) % 5), static_cast<std::uint8_t>(text % 4));
  }
  const std::vector<dpo::data::TokenRange> ranges{{0, 1}, {2, 4}};
  dpo::data::PromptText chat;
  chat.responses.resize(1);
  writer.begin_prompt(chat);
  writer.add_text(tokens, 0);
  writer.add_text(tokens, 0, ranges);
  writer.finish({{}, 3, 0, {}, {"a note", "another"}});
  return folder.read("tokens");
}

const std::string kTokens[] = {"\0\0\0\0"s,
                               "\1\0\0\0"s,
                               "\2\0\0\0"s,
                               "\xff\xff\xff\xff",
                               "\0\0\0\x80"s,
                               "\3\0\0\0\0\0\0\0"s,
                               "\xff\xff\xff\xff\xff\xff\xff\x7f",
                               "\xff\xff\xff\xff\xff\xff\xff\xff"};

// Changes numbers in place, so that the tables keep their offsets.
void change_word(Mutator& mutator, std::string& file) {
  const std::string& word = mutator.pick(kTokens);
  const std::size_t at = mutator.below(file.size() / 4) * 4;
  if (at + word.size() <= file.size()) file.replace(at, word.size(), word);
}

void set_sum(std::string& file) {
  if (file.size() < kSum) return;
  std::fill(file.end() - kSum, file.end(), '\0');
  dpo::Sha256 hash;
  hash.add(file);
  const dpo::Sha256::Sum sum = hash.finish();
  std::copy_n(reinterpret_cast<const char*>(sum.data()), kSum, file.end() - kSum);
}

std::string make(Mutator& mutator) {
  static const std::string kSeed = seed();
  std::string file = kSeed;
  for (std::size_t rounds = mutator.below(4); rounds > 0; --rounds) change_word(mutator, file);
  if (mutator.below(3) == 0) mutator.mutate(file, kTokens, 3);
  if (mutator.below(20) != 0) set_sum(file);
  return file;
}

const Registered kTarget({"token_file", make, try_input});

}  // namespace
}  // namespace fuzz::token_file
