#include "data/source.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "unit/data/files.h"

namespace dpo::data {
namespace {

class Sources : public WithFolder {
 protected:
  Sources() { setenv("HF_HUB_CACHE", (folder_ / "hub").c_str(), 1); }
  ~Sources() override { unsetenv("HF_HUB_CACHE"); }

  static std::string hh_line(const std::string& name) {
    return fmt::format("{{\"chosen\": \"{0}\\n\\nAssistant: c\", \"rejected\": \"{0}\\n\\nAssistant: r\"}}\n",
                       name);
  }
  static std::string line(const std::string& prompt) {
    return fmt::format("{{\"prompt\": \"{}\", \"chosen\": \"c\", \"rejected\": \"r\"}}\n", prompt);
  }

  // Returns the prompts of a split in all data sets, joined by '|'.
  std::string prompts(Split split) const {
    std::string all;
    for (const Source& source : find_sources(config_, split))
      for (const PromptText& prompt : read_source(source, config_).prompts)
        all += prompt.prompt.substr(0, prompt.prompt.find('\n')) + "|";
    return all;
  }

  config::RunConfig config_ = make_config();
};

TEST_F(Sources, HhComesFromItsPublishedFolders) {
  for (const char* folder : {"helpful-online", "harmless-base", "helpful-rejection-sampled", "helpful-base"})
    for (const char* split : {"train", "test"})
      write(fmt::format("hh/{}/{}.jsonl.gz", folder, split),
            gzipped(hh_line(fmt::format("{} {}", folder, split))));
  write("hh/red-team-attempts/red_team_attempts.jsonl.gz", gzipped("nonsense"));
  config_.datasets = {"hh"};
  config_.dataset_paths.hh = (folder_ / "hh").string();
  EXPECT_EQ(prompts(Split::Train),
            "harmless-base train|helpful-base train|helpful-online train|helpful-rejection-sampled train|");
  EXPECT_EQ(prompts(Split::Test),
            "harmless-base test|helpful-base test|helpful-online test|helpful-rejection-sampled test|");
  EXPECT_EQ(find_sources(config_, Split::Train)[0].truncation(), Truncation::KeepEnd);
}

TEST_F(Sources, ComeFromTheHuggingFaceCache) {
  const std::string commit(40, 'b');
  write("hub/datasets--Anthropic--hh-rlhf/refs/main", commit);
  write("hub/datasets--Anthropic--hh-rlhf/snapshots/" + commit + "/harmless-base/train.jsonl",
        hh_line("cached"));
  write("hub/datasets--me--mine/refs/main", commit);
  write("hub/datasets--me--mine/snapshots/" + commit + "/data/train-00000-of-00001.jsonl", line("mine"));
  write("hub/datasets--me--mine/snapshots/" + commit + "/data/test-00000-of-00001.jsonl", line("test"));
  config_.datasets = {"hh", "me/mine"};
  EXPECT_EQ(prompts(Split::Train), "cached|mine|");
}

TEST_F(Sources, OfYourOwnAreSplitByName) {
  write("d/train.jsonl", line("a"));
  write("d/more/extra.csv", "prompt,chosen,rejected\nb,1,2\n");
  write("d/validation.jsonl", line("v"));
  write("d/.hidden/train.jsonl", line("h"));
  write("d/README.md", "x");
  config_.datasets = {(folder_ / "d").string()};
  EXPECT_EQ(prompts(Split::Train), "b|a|");
  EXPECT_EQ(prompts(Split::Test), "v|");
  write("d/test.jsonl", line("t"));  // then validation belongs to neither split
  EXPECT_EQ(prompts(Split::Test), "t|");
  EXPECT_EQ(prompts(Split::Train), "b|a|");
  EXPECT_EQ(find_sources(config_, Split::Train)[0].truncation(), Truncation::KeepStart);
}

TEST_F(Sources, OfOneFileAreSplitByAHash) {
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += line(fmt::format("p{}", i));
  config_.datasets = {write("all.jsonl", lines).string()};
  config_.data.test_share = 0.1;
  const std::string train = prompts(Split::Train);
  const std::string test = prompts(Split::Test);
  const auto count = [](const std::string& all) { return std::count(all.begin(), all.end(), '|'); };
  EXPECT_EQ(count(train) + count(test), 1000);
  EXPECT_NEAR(static_cast<double>(count(test)), 100, 30);
  // Other prompts do not move a prompt to the other split.
  config_.datasets = {write("all.jsonl", line("p7") + line("new")).string()};
  EXPECT_EQ((prompts(Split::Train) + "|").find("p7|") == std::string::npos,
            train.find("|p7|") == std::string::npos);
}

TEST_F(Sources, OfASmallFileKeepMoreForTesting) {
  EXPECT_EQ(default_test_share(1'000'000), 0.01);
  EXPECT_EQ(default_test_share(1600), 0.01);
  EXPECT_EQ(default_test_share(400), 0.04);
  EXPECT_EQ(default_test_share(3), 0.1);
  EXPECT_EQ(default_test_share(0), 0.1);
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += line(fmt::format("p{}", i));
  config_.datasets = {write("all.jsonl", lines).string()};
  config_.data.test_share.reset();
  const Source test = find_sources(config_, Split::Test)[0];
  const SourceTexts texts = read_source(test, config_);
  EXPECT_NEAR(static_cast<double>(texts.prompts.size()), 16, 8);
  ASSERT_EQ(texts.notes.size(), 1u);
  const auto note = [](std::size_t tested_rows, int share, std::size_t rows) {
    return fmt::format(
        "small file: the test split is {} % of its prompts, {} of its {} rows (data.test_share=0.01 "
        "takes 1 %)",
        share, tested_rows, rows);
  };
  EXPECT_EQ(texts.notes[0], note(texts.prompts.size(), 8, 200));
  EXPECT_EQ(read_source(find_sources(config_, Split::Train)[0], config_).notes, texts.notes);
  config_.data.test_share = 0.08;  // set explicitly: the same split, without a note
  EXPECT_EQ(read_source(test, config_).prompts.size(), texts.prompts.size());
  EXPECT_TRUE(read_source(test, config_).notes.empty());
  // All rows of a prompt are in one split, whatever its share.
  config_.data.test_share.reset();
  int tested = 0, trained = 0;
  while (!is_in_test_split(split_hash_of(fmt::format("p{}", tested)), 0.1)) ++tested;
  while (is_in_test_split(split_hash_of(fmt::format("p{}", trained)), 0.1)) ++trained;
  lines = line(fmt::format("p{}", trained));
  for (int i = 0; i < 39; ++i) lines += line(fmt::format("p{}", tested));
  config_.datasets = {write("few.jsonl", lines).string()};
  EXPECT_EQ(read_source(find_sources(config_, Split::Train)[0], config_).notes,
            std::vector<std::string>{note(39, 10, 40)});
}

TEST_F(Sources, MayHaveAColumnWithoutAName) {
  config_.datasets = {write("a/train.csv", ",prompt,chosen,rejected\n0,a,b,c\n").string()};
  const std::vector<std::string> notes = read_source(find_sources(config_, Split::Train)[0], config_).notes;
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(notes[0].starts_with("unused column: the one without a name (such as pandas' index); "))
      << notes[0];
}

TEST_F(Sources, HaveEveryColumnThatIsNamed) {
  config_.datasets = {write("a/train.jsonl",
                            "{\"question\": \"q\", \"system\": \"s\", \"chosen\": \"x y\", "
                            "\"rejected\": \"x z\"}\n")
                          .string()};
  const auto problem = [&] { return problem_of([&] { prompts(Split::Train); }); };
  EXPECT_EQ(problem(), "");  // whole transcripts
  for (const bool in_folder : {false, true}) {
    if (in_folder) {
      write("a/test.jsonl", line("t"));
      config_.datasets = {(folder_ / "a").string()};
    }
    config_.data.columns = {{"prompt", "qestion"}};
    EXPECT_NE(problem().find("no row has a column 'qestion'; did you mean 'question'?"), std::string::npos);
    config_.data.columns = {{"prompt", "question"}};
    const SourceTexts texts = read_source(find_sources(config_, Split::Train)[0], config_);
    EXPECT_EQ(texts.prompts[0].prompt, "q");
    ASSERT_EQ(texts.notes.size(), 1u);
    EXPECT_NE(texts.notes[0].find("unused column: system;"), std::string::npos) << texts.notes[0];
  }
  config_.datasets = {"hh"};
  write("hh/train.jsonl", hh_line("a"));
  config_.dataset_paths.hh = (folder_ / "hh").string();
  EXPECT_NE(problem().find("data.columns applies to your own files"), std::string::npos);
}

TEST_F(Sources, AreLimitedByRows) {
  write("hh/train.jsonl", hh_line("a") + hh_line("a") + hh_line("b") + "nonsense");
  config_.datasets = {"hh"};
  config_.dataset_paths.hh = (folder_ / "hh").string();
  config_.data.limits = {{"hh", 3}};
  EXPECT_EQ(prompts(Split::Train), "a|b|");
  config_.data.limits = {{"hh", 2}};
  EXPECT_EQ(prompts(Split::Train), "a|");
}

TEST_F(Sources, SkipBadRowsWhenAsked) {
  write("hh/train.jsonl", hh_line("a") + "nonsense\n{\"chosen\": 1}\n" + hh_line("b"));
  config_.datasets = {"hh"};
  config_.dataset_paths.hh = (folder_ / "hh").string();
  EXPECT_NE(problem_of([&] { prompts(Split::Train); }).find("train.jsonl:2: not valid JSON"),
            std::string::npos);
  config_.data.on_error = config::BadRowPolicy::skip;
  EXPECT_EQ(prompts(Split::Train), "a|b|");
  const SourceTexts texts = read_source(find_sources(config_, Split::Train)[0], config_);
  EXPECT_EQ(texts.rows, 2);
  EXPECT_EQ(texts.bad_rows, 2);
  EXPECT_EQ(texts.bad_examples.size(), 2u);
}

TEST_F(Sources, OfStackExchangeShuffleAndSplit) {
  std::string lines;
  for (int i = 0; i < 200; ++i)
    lines += fmt::format(
        "{{\"question\": \"<p>q{}</p>\", \"answers\": [{{\"text\": \"<p>a</p>\", \"pm_score\": 1}}]}}\n", i);
  write("se/data/x.jsonl", lines);
  config_.datasets = {"se"};
  config_.dataset_paths.se = (folder_ / "se").string();
  const SourceTexts test = read_source(find_sources(config_, Split::Test)[0], config_);
  ASSERT_EQ(test.prompts.size(), 2u);
  const SourceTexts train = read_source(find_sources(config_, Split::Train)[0], config_);
  EXPECT_EQ(train.prompts.size(), 198u);
  config_.data.limits = {{"se", 5}};
  const SourceTexts few = read_source(find_sources(config_, Split::Train)[0], config_);
  ASSERT_EQ(few.prompts.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(few.prompts[i].prompt, train.prompts[i].prompt);
}

TEST_F(Sources, ThatAreNotThereSayHowToGetThem) {
  const auto problem = [&](std::vector<std::string> names) {
    config_.datasets = std::move(names);
    return problem_of([&] { find_sources(config_, Split::Train); });
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(problem({"hh"}), "Anthropic/hh-rlhf', or give its folder: dataset_paths.hh=DIR"));
  EXPECT_TRUE(has(problem({"me/it"}), "download it with '"));
  EXPECT_EQ(problem({"no such file.jsonl"}), "datasets: there is no file or folder 'no such file.jsonl' in " +
                                                 std::filesystem::current_path().string());
  write("f/mine.jsonl", "");
  EXPECT_TRUE(has(problem({(folder_ / "f/mien.jsonl").string()}),
                  fmt::format("f/mien.jsonl'; did you mean '{}'?", (folder_ / "f/mine.jsonl").string())));
  EXPECT_TRUE(problem({(folder_ / "f/wire.jsonl").string()}).ends_with("f/wire.jsonl'"))
      << "of its 10 characters only the extension is near";
  EXPECT_TRUE(has(problem({(folder_ / "f/*.jsonl").string()}), "wildcards are not expanded"));
  EXPECT_TRUE(has(problem({(folder_ / "g/mine.jsonl").string()}), "g' either"));
  for (const char* const address : {"https://huggingface.co/datasets/me/it", "hf://datasets/me/it"}) {
    EXPECT_TRUE(has(problem({address}), "is an address; expected 'me/it', or the path"));
    EXPECT_TRUE(has(problem_of([&] { hub_data_sets(config_); }), "is an address; expected 'me/it'"));
  }
  EXPECT_TRUE(
      has(problem({"s3://me/it.jsonl"}), "expected a name on the Hugging Face hub (ORG/NAME), or the path"));
  EXPECT_TRUE(has(problem({"shpp"}), "is not hh, shp or se") &&
              has(problem({"shpp"}), "did you mean 'shp'?"));
  const std::string both = problem({"shp", "se"});
  EXPECT_TRUE(has(both, "stanfordnlp/SHP") && has(both, "stack-exchange-preferences"));
  std::filesystem::create_directories(folder_ / "empty");
  EXPECT_TRUE(has(problem({(folder_ / "empty").string()}), "no files to read in"));
  config_.dataset_paths.hh = (folder_ / "empty").string();
  EXPECT_TRUE(has(problem({"hh"}), "no file of the train split in"));
  config_.dataset_paths.hh = "/no/such/folder";
  EXPECT_TRUE(has(problem({"hh"}), "dataset_paths.hh: there is no folder /no/such/folder"));
  config_.data.weights = {{"hhh", 2}};
  EXPECT_TRUE(has(problem({"hh"}), "data.weights: 'hhh' is not one of the data sets (hh)"));
  config_.data.weights.clear();
  config_.data.limits = {{"x", 2}};
  EXPECT_TRUE(has(problem({"hh"}), "data.limits: 'x' is not one of the data sets (hh)"));
}

TEST_F(Sources, WithoutARowForASplitSaySo) {
  config_.datasets = {write("one.jsonl", line("p")).string()};
  config_.data.test_share = 0;
  const auto problem = [&](Split split) { return problem_of([&] { prompts(split); }); };
  const auto expect = [](const std::string& got, const std::string& end) {
    EXPECT_TRUE(got.ends_with(end)) << got;
  };
  // No share can divide one prompt, whatever the number of its rows.
  const std::string no_test = "eval_every=null data.test_share=0 to train on all rows without evaluation";
  const std::string few = " split: 1 prompt is too few to split by prompt. Give rows with more prompts, or ";
  expect(problem(Split::Test), "of its 1 row none fell into the test" + few + no_test);
  config_.datasets = {write("same.jsonl", line("p") + line("p")).string()};
  config_.data.test_share = 1;
  expect(problem(Split::Train), "of its 2 rows none fell into the train" + few + no_test);
  config_.datasets = {write("three.jsonl", line("p") + line("q") + line("r")).string()};
  expect(problem(Split::Train),
         "of its 3 rows none fell into the train split. Give more rows, a smaller "
         "data.test_share, or " +
             no_test);
  config_.data.test_share = 0;
  expect(problem(Split::Test),
         "of its 3 rows none fell into the test split. Give more rows, a larger "
         "data.test_share, or " +
             no_test);
}

// By default, a small file has at least one prompt to evaluate on and one to train on.
TEST_F(Sources, OfFewPromptsHaveBothSplits) {
  config_.data.test_share.reset();
  const auto count = [&](Split split) {
    const std::string all = prompts(split);
    return std::count(all.begin(), all.end(), '|');
  };
  std::string lines = line("p0");
  for (int rows = 2; rows < 30; ++rows) {
    lines += line(fmt::format("p{}", rows));
    config_.datasets = {write("few.jsonl", lines).string()};
    EXPECT_GE(count(Split::Test), 1) << rows;
    EXPECT_GE(count(Split::Train), rows / 2) << rows;
    EXPECT_EQ(count(Split::Test) + count(Split::Train), rows);
  }
  config_.datasets = {write("one.jsonl", line("p") + line("p")).string()};
  EXPECT_NE(problem_of([&] { prompts(Split::Test); }).find("1 prompt is too few"), std::string::npos);
}

TEST_F(Sources, WithTheNameOfAFolderSayWhichIsRead) {
  const std::filesystem::path before = std::filesystem::current_path();
  write("here/hh/train.jsonl", line("p"));
  write("here/shp", "");
  std::filesystem::current_path(folder_ / "here");
  config_.datasets = {"hh", "shp", "se"};
  EXPECT_EQ(namesake_notes(config_),
            (std::vector<std::string>{
                "datasets: 'hh' is Anthropic/hh-rlhf, not the folder ./hh, which datasets=[./hh] reads",
                "datasets: 'shp' is stanfordnlp/SHP, not the file ./shp, which datasets=[./shp] reads"}));
  const std::string problem = problem_of([&] { find_sources(config_, Split::Train); });
  EXPECT_NE(problem.find("dataset_paths.hh=DIR; datasets=[./hh] reads the folder ./hh"), std::string::npos)
      << problem;
  config_.dataset_paths.hh = (folder_ / "here/hh").string();
  EXPECT_EQ(namesake_notes(config_).size(), 1u);
  std::filesystem::current_path(before);
}

// Neither more rows nor another share would help here.
TEST_F(Sources, WithoutAnyRowSayWhy) {
  const auto problem = [&](const char* name, const std::string& content) {
    config_.datasets = {write(name, content).string()};
    return problem_of([&] { prompts(Split::Train); });
  };
  const auto expect = [](const std::string& got, const std::string& end) {
    EXPECT_TRUE(got.ends_with(end)) << got;
  };
  const std::string none = "e.jsonl': there are no rows to read for the train split: the file ";
  expect(problem("e.jsonl", ""), none + "is empty (0 bytes)");
  expect(problem("e.jsonl", "\n \n\r\n"),
         none + "has only blank lines, an empty list or a line of column names");
  expect(problem("e.json", "[]"), "the file has only blank lines, an empty list or a line of column names");
  expect(problem("e.csv", "prompt,chosen,rejected\n"), "or a line of column names");
  write("folder/train-1.jsonl", "");
  write("folder/test.jsonl", line("t"));
  config_.datasets = {write("folder/train-2.jsonl", "").parent_path().string()};
  expect(problem_of([&] { prompts(Split::Train); }), "folder/train-1.jsonl, is empty (0 bytes)");
  config_.data.on_error = config::BadRowPolicy::skip;
  const std::string skipped = problem("e.jsonl", "{\"prompt\": 1}\nx\n");
  EXPECT_NE(skipped.find("none of its 2 rows can be read, all were skipped; the first: " +
                         config_.datasets[0] + ":1: expected the columns"),
            std::string::npos)
      << skipped;
  EXPECT_EQ(skipped.find("test_share"), std::string::npos) << skipped;
}

}  // namespace
}  // namespace dpo::data
