#include "data/split_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace dpo::data {
namespace {

using Paths = std::vector<std::string>;

// Returns "train files | test files | number of notes", or the error.
std::string chosen(const std::string& name, const Paths& paths) {
  try {
    const HubFiles files = choose_files(HubName::parse(name), paths);
    return fmt::format("{} | {} | {}", fmt::join(files.train, " "), fmt::join(files.test, " "),
                       files.notes.size());
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(HubFiles, AreTrainAndTestByTheirNames) {
  EXPECT_EQ(
      chosen("a/b", {"data/test-00000-of-00001.parquet", "data/train-00000-of-00002-0123456789abcdef.parquet",
                     "data/train-00001-of-00002-0123456789abcdef.parquet"}),
      "data/train-00000-of-00002-0123456789abcdef.parquet "
      "data/train-00001-of-00002-0123456789abcdef.parquet | data/test-00000-of-00001.parquet | 0");
  EXPECT_EQ(chosen("a/b", {"test.csv", "training.csv", "val.csv"}), "training.csv | test.csv | 0");
  EXPECT_EQ(chosen("a/b", {"my_train.jsonl.gz", "my_validation.jsonl.gz"}),
            "my_train.jsonl.gz | my_validation.jsonl.gz | 0");
  EXPECT_EQ(chosen("a/b", {"train/part-a.json", "train/part-b.json", "train_1.json"}),
            "train/part-a.json train/part-b.json train_1.json |  | 0");
  EXPECT_EQ(chosen("a/b", {"a.jsonl", "b.jsonl"}), "a.jsonl b.jsonl |  | 0");
  EXPECT_EQ(chosen("a/b", {"pairs.jsonl", "test.jsonl"}), "pairs.jsonl | test.jsonl | 0");
  EXPECT_EQ(chosen("a/b", {"test.jsonl"}), " | test.jsonl | 0");
  EXPECT_EQ(chosen("a/b", {}), " |  | 0");
}

TEST(HubFiles, WithoutASplitAreNotUsedIfOthersHaveOne) {
  EXPECT_EQ(chosen("a/b", {"train.jsonl", "red-team/attempts.jsonl"}), "train.jsonl |  | 1");
}

TEST(HubFiles, OfSeveralPartsAreForTheUserToChoose) {
  const Paths paths = {"data/test_gen.parquet", "data/test_prefs.parquet", "data/train_gen.parquet",
                       "data/train_prefs.parquet"};
  EXPECT_EQ(
      chosen("a/b", paths),
      "datasets: 'a/b' has several configurations or training splits: choose one of a/b:gen, a/b:prefs, or "
      "several, as in datasets=[A, B], or a/b:all");
  EXPECT_EQ(chosen("a/b:prefs", paths), "data/train_prefs.parquet | data/test_prefs.parquet | 0");
  EXPECT_EQ(chosen("a/b:sft", paths),
            "datasets: 'a/b:sft': the data set has no such part; it has a/b:gen, a/b:prefs");
  EXPECT_EQ(
      chosen("a/b:all", paths),
      "data/train_gen.parquet data/train_prefs.parquet | data/test_gen.parquet data/test_prefs.parquet | 0");
  EXPECT_EQ(chosen("a/b:en", {"de/train/0000.parquet", "en/test/0000.parquet", "en/train/0000.parquet"}),
            "en/train/0000.parquet | en/test/0000.parquet | 0");
  EXPECT_EQ(chosen("a/b@v1:en", {"de/x.jsonl", "en/x.jsonl"}), "en/x.jsonl |  | 0");
}

TEST(HubFiles, CalledTrainAndTestAreUsedBeforeOthers) {
  EXPECT_EQ(chosen("a/b", {"test.jsonl", "test_small.jsonl", "train.jsonl", "train_small.jsonl"}),
            "train.jsonl | test.jsonl | 1");
  EXPECT_EQ(chosen("a/b", {"test.jsonl", "train_prefs.jsonl"}), "train_prefs.jsonl | test.jsonl | 0");
}

TEST(HubFiles, ThatTheHubHasCutAreUsedWithANote) {
  EXPECT_EQ(chosen("a/b", {"default/partial-train/0000.parquet", "default/test/0000.parquet"}),
            "default/partial-train/0000.parquet | default/test/0000.parquet | 1");
}

}  // namespace
}  // namespace dpo::data
