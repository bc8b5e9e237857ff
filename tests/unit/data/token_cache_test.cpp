#include "data/token_cache.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "data/examples.h"
#include "unit/data/byte_tokenizer.h"

namespace dpo::data {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string text_of(std::span<const Token> tokens) {
  std::string text;
  for (const Token token : tokens) text += token == kEos ? '$' : static_cast<char>(token);
  return text;
}

class CachedTokens : public WithTokenizer {
 protected:
  CachedTokens() {
    config_.datasets = {write("d/train.jsonl",
                              "{\"prompt\": \"p\", \"chosen\": \"c\", \"rejected\": \"\"}\n"
                              "{\"prompt\": \"q\", \"chosen\": \"x<|endoftext|>\", \"rejected\": \"y\"}\n"
                              "{\"prompt\": \"p\", \"chosen\": \"d\", \"rejected\": \"e\"}\n")
                            .parent_path()
                            .string()};
    write("d/test.jsonl", "{\"prompt\": \"t\", \"chosen\": \"c\", \"rejected\": \"e\"}\n");
    cache_.folder = folder_ / "tokens";
  }

  TokenFile load() {
    cache_.notes.clear();
    return load_tokens(find_sources(config_, Split::Train)[0], config_, *tokenizer_, cache_);
  }

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(cache_.folder))
      if (entry.path().extension() == ".tokens") found.push_back(entry.path());
    return found;
  }

  config::RunConfig config_ = make_config();
  TokenCache cache_;
};

TEST_F(CachedTokens, HoldEverythingUncut) {
  const TokenFile file = load();
  ASSERT_EQ(file.prompts(), 2u);
  EXPECT_EQ(file.rows(), 3);
  EXPECT_EQ(text_of(file.prompt(0)), "p");
  ASSERT_EQ(file.responses(0), 4u);
  EXPECT_EQ(text_of(file.response(0, 0)), "c$");
  EXPECT_EQ(text_of(file.response(0, 1)), "$");
  EXPECT_EQ(text_of(file.response(0, 3)), "e$");
  EXPECT_EQ(file.response_flags(0, 1), kIsEmpty);
  EXPECT_EQ(file.response_flags(1, 0), kHasEos);
  EXPECT_EQ(file.prompt_flags(0), 0);
  ASSERT_EQ(file.pairs(0).size(), 2u);
  EXPECT_EQ(file.pairs(0)[1].chosen, 2u);
  EXPECT_EQ(file.sft_target(0), 2u);
}

TEST_F(CachedTokens, HoldRankingsAndWeights) {
  write("d/train.jsonl",
        "{\"prompt\": \"p\", \"chosen\": \"c\", \"rejected\": \"d\", \"weight\": 0.5, \"margin\": 3}\n"
        "{\"prompt\": \"q\", \"responses\": [\"x\", \"y\", \"z\"], \"ranking\": [2, 3, 1], \"weight\": 2}\n");
  load();
  const TokenFile file = load();
  ASSERT_EQ(file.rankings(0), 1u);
  ASSERT_EQ(file.rankings(1), 1u);
  EXPECT_EQ(file.ranking(0, 0).responses, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(file.ranking(0, 0).weight, 0.5f);
  EXPECT_EQ(file.ranking(1, 0).responses, (std::vector<std::uint32_t>{2, 0, 1}));
  EXPECT_EQ(file.ranking(1, 0).weight, 2);
  EXPECT_EQ(file.pairs(0)[0].margin, 3);
  EXPECT_EQ(file.pairs(1).size(), 3u);
}

TEST_F(CachedTokens, HoldLabelsAndRangesThatAreNotScored) {
  const fs::path path = folder_ / "made.tokens";
  const std::vector<Token> tokens = {1, 2, 3, 4, 5};
  const std::vector<TokenRange> ranges = {{0, 1}, {3, 5}};
  const auto write_file = [&](std::span<const TokenRange> unscored, std::uint32_t labelled) {
    TokenFileWriter writer(path, "key", "about");
    PromptText prompt;
    prompt.responses.resize(2);
    prompt.labels = {{labelled, false, 0.5f}, {0, true, 2.0f}};
    writer.begin_prompt(prompt);
    writer.add_text(tokens, kTurnsDropped);
    writer.add_text(tokens, kEndAdded);
    writer.add_text(tokens, kBoundaryMoved, unscored);
    writer.finish({{}, 1, 0, {}, {}});
  };
  std::string why;
  write_file(ranges, 1);
  const auto file = TokenFile::open(path, "key", why);
  ASSERT_TRUE(file) << why;
  EXPECT_EQ(file->prompt_flags(0), kTurnsDropped);
  EXPECT_EQ(file->response_flags(0, 1), kBoundaryMoved);
  EXPECT_TRUE(file->unscored(0, 0).empty());
  EXPECT_TRUE(std::ranges::equal(file->unscored(0, 1), ranges));
  ASSERT_EQ(file->labels(0).size(), 2u);
  EXPECT_EQ(file->labels(0)[0].response, 1u);
  EXPECT_FALSE(file->labels(0)[0].desirable);
  EXPECT_EQ(file->labels(0)[0].weight, 0.5f);
  EXPECT_TRUE(file->labels(0)[1].desirable);
  // The hash is correct in all of these, so only the tables reveal the damage.
  const auto is_refused = [&] { return !TokenFile::open(path, "key", why) && why == "damaged"; };
  for (const std::vector<TokenRange>& wrong :
       std::vector<std::vector<TokenRange>>{{{3, 5}, {0, 1}}, {{0, 2}, {1, 3}}, {{0, 6}}, {{4, 3}}}) {
    write_file(wrong, 1);
    EXPECT_TRUE(is_refused());
  }
  write_file(ranges, 2);
  EXPECT_TRUE(is_refused());
}

TEST_F(CachedTokens, OfAnotherFormatAreMadeAgain) {
  load();
  const fs::path path = files().at(0);
  const std::string good = read(path);
  std::string old = good;
  old.replace(0, 12, "dpo tokens 3");
  write(fs::relative(path, folder_).string(), old);
  EXPECT_EQ(load().prompts(), 2u);
  ASSERT_EQ(cache_.notes.size(), 1u);
  EXPECT_NE(cache_.notes[0].find("in another format or for another key; tokenizing again"),
            std::string::npos);
  EXPECT_EQ(read(path), good);
}

TEST_F(CachedTokens, AreMadeOnce) {
  load();
  const fs::path kept = folder_ / "kept";
  fs::create_hard_link(files().at(0), kept);  // if the file is written again, it is a different one
  int shown = 0;
  cache_.progress = [&](const std::string&, std::int64_t, std::int64_t) { ++shown; };
  EXPECT_EQ(load().prompts(), 2u);
  EXPECT_EQ(shown, 0);
  EXPECT_TRUE(fs::equivalent(files().at(0), kept));
  EXPECT_EQ(files().size(), 1u);
  config_.max_length = 7;  // truncates, but does not change tokens
  load();
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(CachedTokens, AreMadeAgainForOtherContentOrOptions) {
  load();
  write("d/train.jsonl", "{\"prompt\": \"new\", \"chosen\": \"c\", \"rejected\": \"e\"}\n");
  EXPECT_EQ(text_of(load().prompt(0)), "new");
  EXPECT_EQ(files().size(), 2u);
  config_.data.columns = {{"chosen", "rejected"}, {"rejected", "chosen"}};
  EXPECT_EQ(text_of(load().response(0, 0)), "e$");
  config_.data.limits = {{config_.datasets[0], 1}};
  load();
  config_.data.on_error = config::BadRowPolicy::skip;
  load();
  EXPECT_EQ(files().size(), 5u);
  write("tokenizer/merges.txt", "#version: 0.2\na b\n");
  nlohmann::json vocabulary = byte_vocabulary();
  vocabulary["ab"] = 257;
  write("tokenizer/vocab.json", vocabulary.dump());
  tokenizer_.emplace(text::Tokenizer::load(folder_ / "tokenizer"));
  load();
  EXPECT_EQ(files().size(), 6u);
}

TEST_F(CachedTokens, ThatAreDamagedAreMadeAgain) {
  load();
  const fs::path path = files().at(0);
  const std::string good = read(path);
  for (std::size_t at = 0; at < good.size(); at += 7) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x20);
    write(fs::relative(path, folder_).string(), bad);
    EXPECT_EQ(load().prompts(), 2u);
    ASSERT_EQ(cache_.notes.size(), 1u) << at;
    EXPECT_NE(cache_.notes[0].find("tokenizing again"), std::string::npos);
    ASSERT_EQ(read(path), good);
  }
  for (const std::size_t size : {0u, 1u, 127u, 200u}) {
    fs::resize_file(path, size);
    load();
    EXPECT_EQ(cache_.notes.size(), 1u) << size;
    ASSERT_EQ(read(path), good);
  }
  load();
  EXPECT_TRUE(cache_.notes.empty());
}

TEST_F(CachedTokens, AreSharedByManyAtOnce) {
  const std::vector<Source> sources = find_sources(config_, Split::Train);
  std::atomic<int> makers = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        TokenCache cache{cache_.folder, [&](const std::string&, std::int64_t, std::int64_t) { ++makers; }};
        EXPECT_EQ(load_tokens(sources[0], config_, *tokenizer_, cache).prompts(), 2u);
      });
  }
  EXPECT_EQ(makers, 1);
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(CachedTokens, NeedAWritableFolder) {
  cache_.folder = write("file", "x") / "tokens";
  EXPECT_NE(problem_of([&] { load(); }).find("choose another with local_dirs=[DIR]"), std::string::npos);
}

TEST_F(CachedTokens, TellAboutUnusedColumnsEachTime) {
  write("d/train.jsonl", "{\"prompt\": \"p\", \"chosen\": \"c\", \"rejected\": \"e\", \"system\": \"s\"}\n");
  for (int i = 0; i < 2; ++i) {  // written, then found
    load();
    ASSERT_EQ(cache_.notes.size(), 1u);
    EXPECT_NE(cache_.notes[0].find("/d: unused column: system;"), std::string::npos) << cache_.notes[0];
  }
}

TEST_F(CachedTokens, AreFoundWithoutMakingThem) {
  const Source source = find_sources(config_, Split::Train)[0];
  EXPECT_FALSE(find_tokens(source, config_, *tokenizer_, cache_));
  EXPECT_FALSE(fs::exists(cache_.folder));
  load();
  ASSERT_TRUE(find_tokens(source, config_, *tokenizer_, cache_));
  EXPECT_EQ(find_tokens(source, config_, *tokenizer_, cache_)->prompts(), 2u);
}

TEST_F(CachedTokens, TellAboutSkippedRows) {
  write("d/train.jsonl", "nonsense\n{\"prompt\": \"new\", \"chosen\": \"c\", \"rejected\": \"e\"}\n");
  config_.data.on_error = config::BadRowPolicy::skip;
  EXPECT_EQ(load().bad_rows(), 1);
  ASSERT_EQ(cache_.notes.size(), 2u);
  EXPECT_NE(cache_.notes[1].find("train.jsonl:1: not valid JSON"), std::string::npos);
  EXPECT_EQ(load().bad_rows(), 1);
}

}  // namespace
}  // namespace dpo::data
