#include "track/tensorboard.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

#include <gtest/gtest.h>

#include "fuzz/temp_folder.h"
#include "track/append_file.h"
#include "track/framing.h"
#include "track/histogram.h"
#include "track/protobuf.h"

namespace dpo::track {
namespace {

namespace fs = std::filesystem;
using fuzz::TempFolder;

History history_of(std::vector<Row> rows) {
  return [rows = std::move(rows)](std::int64_t first, const std::function<void(const Row&)>& use) {
    for (const Row& row : rows)
      if (row.step >= first) use(row);
  };
}

Row update_at(std::int64_t step, double loss) { return {step, {{"loss/train", loss}, {"both", 1}}}; }
Row evaluation_at(std::int64_t step, double loss) { return {step, {{"loss/eval", loss}, {"both", 1}}}; }

TensorBoard::Settings settings_in(const TempFolder& folder, std::int64_t examples = 0,
                                  std::int64_t evaluated = -1) {
  return {.run = folder.path(),
          .config = R"({"lr": 0.001, "loss": {"name": "dpo"}})",
          .examples = examples,
          .evaluated = evaluated};
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

// Returns "STEP TAG" of every value that TensorBoard shows of a run, except the configuration.
std::vector<std::string> values_in(const TempFolder& folder) {
  std::vector<std::pair<std::uint64_t, std::string>> values;
  auto files = files_in(folder.path() / "tensorboard");
  std::ranges::sort(files);
  for (const fs::path& path : files) {
    const std::string file = text_of(path);
    std::istringstream bytes(file);
    TfReader reader(bytes);
    for (std::string event; reader.next(event);) {
      const std::uint64_t step = field_of(event, 2).value;
      if (!field_of(event, 7).bytes.empty())  // a restart
        std::erase_if(values, [&](const auto& value) { return value.first >= step; });
      for (const Field& value : fields_of(field_of(event, 5).bytes))
        if (const std::string tag(field_of(value.bytes, 1).bytes); tag != "config")
          values.emplace_back(step, tag);
    }
  }
  std::vector<std::string> texts;
  for (const auto& [step, tag] : values) texts.push_back(std::to_string(step) + " " + tag);
  return texts;
}

using Names = std::vector<std::string>;

TEST(TensorBoard, AResumedRunHasEachStepOnce) {
  const TempFolder folder;
  const std::vector<Distribution> lengths = {{"eval_tokens/chosen", {1, 2, 3}}};
  {
    TensorBoard board(settings_in(folder), {});
    EXPECT_TRUE(board.add(update_at(4, 0.5)));
    EXPECT_TRUE(board.add(evaluation_at(4, 0.6)));
    EXPECT_TRUE(board.add_histograms(4, lengths));
    EXPECT_TRUE(board.add_samples(4, std::vector<SampleText>{{"p", "a\nb", "r"}}));
    EXPECT_TRUE(board.flush());  // saves here
    EXPECT_TRUE(board.add(update_at(8, 0.4)));
    EXPECT_TRUE(board.add(evaluation_at(8, 0.5)));
    EXPECT_TRUE(board.add_histograms(8, lengths));
  }  // killed
  TensorBoard board(settings_in(folder, 4, 4), history_of({update_at(4, 0.5), evaluation_at(4, 0.6)}));
  const Names kept = {"4 loss/train", "4 both", "4 loss/eval", "4 eval_tokens/chosen", "4 samples/1"};
  EXPECT_EQ(values_in(folder), kept);
  EXPECT_TRUE(board.add(update_at(6, 0.45)));  // another moment of the log interval
  Names all = kept;
  all.insert(all.end(), {"6 loss/train", "6 both"});
  EXPECT_EQ(values_in(folder), all);
}

TEST(TensorBoard, AnEvaluationThatWasStoppedJoinsItsUpdateWhenTheRunIsResumed) {
  const TempFolder folder;
  const std::vector<Row> history = {update_at(2, 0.6), update_at(4, 0.5)};
  {
    TensorBoard board(settings_in(folder), {});
    for (const Row& row : history) board.add(row);
  }
  {
    TensorBoard board(settings_in(folder, 4), history_of(history));
    board.add(evaluation_at(4, 0.6));  // killed before the next checkpoint
    board.add(update_at(6, 0.4));
  }
  const TensorBoard resumed(settings_in(folder, 4), history_of(history));
  EXPECT_EQ(values_in(folder), (Names{"2 loss/train", "2 both", "4 loss/train", "4 both"}));
}

TEST(TensorBoard, GetsTheWholeHistoryIfItIsTurnedOnLater) {
  const TempFolder folder;
  const TensorBoard board(settings_in(folder, 8), history_of({update_at(4, 0.5), update_at(8, 0.4)}));
  EXPECT_EQ(values_in(folder).size(), 4u);
}

TEST(TensorBoard, FilesOfOtherProgramsAreNotTouched) {
  const TempFolder folder;
  fs::create_directories(folder.path() / "tensorboard");
  folder.write("tensorboard/events.out.tfevents.1.host.1.0", "theirs");
  const TensorBoard board(settings_in(folder), {});
  EXPECT_EQ(files_in(folder.path() / "tensorboard").size(), 2u);
  EXPECT_EQ(folder.read("tensorboard/events.out.tfevents.1.host.1.0"), "theirs");
}

TEST(TensorBoard, WhatCannotBeWrittenIsKeptAndWrittenLater) {
  const TempFolder folder;
  folder.write("tensorboard", "a file where a folder is needed");
  TensorBoard board(settings_in(folder), {});
  EXPECT_FALSE(board.add(update_at(4, 0.5)));
  fs::remove(folder.path() / "tensorboard");
  EXPECT_TRUE(board.add(update_at(8, 0.4)));
  EXPECT_EQ(values_in(folder), (Names{"4 loss/train", "4 both", "8 loss/train", "8 both"}));
}

TEST(TensorBoard, KeepsWhatTheHistoryLacks) {
  const TempFolder folder;
  {
    TensorBoard board(settings_in(folder), {});
    board.add(update_at(2, 0.6));  // metrics.jsonl has lost this row, and has null for the next
    board.add(update_at(4, std::numeric_limits<double>::infinity()));
  }
  { const TensorBoard board(settings_in(folder, 4), history_of({{4, {{"both", 1}}}})); }
  EXPECT_EQ(values_in(folder), (Names{"2 loss/train", "2 both", "4 both"}));
  const TensorBoard board(settings_in(folder, 6), history_of({{4, {{"both", 1}}}, update_at(6, 1)}));
  EXPECT_EQ(values_in(folder), (Names{"2 loss/train", "2 both", "4 both", "6 loss/train", "6 both"}));
}

// The rows of a long run stay in the file. Only those at and after the checkpoint are written again.
TEST(TensorBoard, AResumedRunReadsOnlyTheEndOfItsHistory) {
  const TempFolder folder;
  {
    TensorBoard board(settings_in(folder), {});
    for (int i = 1; i <= 1000; ++i) board.add(update_at(4 * i, 0.5));
  }
  int given = 0;
  const History history = [&](std::int64_t first, const std::function<void(const Row&)>& use) {
    for (int i = 1; i <= 900; ++i)
      if (4 * i >= first) use(update_at(4 * i, 0.5)), ++given;
  };
  const TensorBoard board(settings_in(folder, 3600), history);
  EXPECT_LE(given, 2);
  EXPECT_EQ(values_in(folder).size(), 2 * 900u);
}

TEST(AppendFile, GrowsByRecordsAndReplacesWhatWasThere) {
  const TempFolder folder;
  folder.write("file", "old and longer than the new contents");
  AppendFile file(folder.path() / "file", "new");
  EXPECT_EQ(folder.read("file"), "new");
  EXPECT_TRUE(file.append(" more"));
  EXPECT_EQ(folder.read("file"), "new more");
}

TEST(AppendFile, ContinuesAfterTheBytesThatAreKept) {
  const TempFolder folder;
  folder.write("file", "kept, dropped");
  AppendFile file(folder.path() / "file", std::uint64_t{4});
  EXPECT_TRUE(file.is_written());
  EXPECT_EQ(folder.read("file"), "kept");
  EXPECT_TRUE(file.append(" more"));
  EXPECT_EQ(folder.read("file"), "kept more");
  AppendFile absent(folder.path() / "absent", std::uint64_t{0});
  EXPECT_FALSE(absent.is_written());
  EXPECT_FALSE(absent.append("kept until it can be written"));
}

TEST(AppendFile, DoesNotCutTheFileBehindALink) {
  const TempFolder folder;
  folder.write("other", "of somebody else");
  std::filesystem::create_symlink(folder.path() / "other", folder.path() / "file");
  AppendFile file(folder.path() / "file", std::uint64_t{2});
  EXPECT_FALSE(file.is_written());
  EXPECT_FALSE(file.append("more"));
  EXPECT_EQ(folder.read("other"), "of somebody else");
}

TEST(Histogram, CountsEveryFiniteValueOnce) {
  const std::vector<double> values = {-1, 0, 0.5, 1, 1, std::numeric_limits<double>::infinity()};
  const Histogram histogram = histogram_of(values);
  EXPECT_EQ(histogram.edges.size(), histogram.counts.size() + 1);
  EXPECT_EQ(histogram.edges.front(), -1);
  EXPECT_EQ(histogram.edges.back(), 1);
  EXPECT_EQ(histogram.counts.front(), 1);
  EXPECT_EQ(histogram.counts.back(), 2);
  EXPECT_EQ(histogram.count, 5);
  EXPECT_EQ(histogram.sum, 1.5);
  EXPECT_EQ(histogram.sum_of_squares, 3.25);
  EXPECT_EQ(histogram_of(std::vector<double>{3, 3}).counts.back(), 2);
  EXPECT_EQ(histogram_of({}).count, 0);
}

}  // namespace
}  // namespace dpo::track
