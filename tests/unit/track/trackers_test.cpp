#include "track/trackers.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "fuzz/temp_folder.h"
#include "track/append_file.h"
#include "track/framing.h"
#include "track/histogram.h"
#include "track/protobuf.h"
#include "track/wandb_records.h"

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

Row update_at(std::int64_t step, double loss) { return {step, false, {{"loss/train", loss}, {"both", 1}}}; }
Row evaluation_at(std::int64_t step, double loss) { return {step, true, {{"loss/eval", loss}, {"both", 1}}}; }

Settings settings_in(const TempFolder& folder, std::int64_t examples = 0, std::int64_t evaluated = -1) {
  return {.folder = folder.path(),
          .config = R"({"lr": 0.001, "loss": {"name": "dpo"}})",
          .tensorboard = true,
          .wandb = WandbSettings{"tiny", "project", "team"},
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
std::vector<std::string> tensorboard_values(const TempFolder& folder) {
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

std::vector<std::string> wandb_file(const TempFolder& folder) {
  const auto run = wandb_folder(folder.path());
  EXPECT_TRUE(run);
  const std::string name = run->filename().string();
  std::ifstream file(*run / ("run-" + name.substr(name.rfind('-') + 1) + ".wandb"), std::ios::binary);
  WandbReader reader(file);
  std::vector<std::string> records;
  for (std::string record; reader.next(record);) records.push_back(record);
  return records;
}

// Returns the names in each row, by step.
std::map<std::int64_t, std::vector<std::string>> wandb_rows(const TempFolder& folder) {
  std::map<std::int64_t, std::vector<std::string>> rows;
  for (const std::string& record : wandb_file(folder))
    if (const auto row = read_history(record)) {
      EXPECT_FALSE(rows.contains(row->first)) << "step " << row->first << " twice";
      for (const auto& [key, json] : row->second)
        if (!key.starts_with("_")) rows[row->first].push_back(key);
    }
  return rows;
}

using Names = std::vector<std::string>;

TEST(Trackers, AResumedRunHasEachStepOnce) {
  const TempFolder folder;
  const Settings settings = settings_in(folder);
  const std::vector<Distribution> lengths = {{"eval_tokens/chosen", {1, 2, 3}}};
  const std::vector<SampleText> samples = {{"p", "a\nb", "r"}};
  {
    Trackers trackers(settings, {});
    EXPECT_TRUE(trackers.add(update_at(4, 0.5)));
    EXPECT_TRUE(trackers.add(evaluation_at(4, 0.6)));
    EXPECT_TRUE(trackers.add_histograms(4, lengths));
    EXPECT_TRUE(trackers.add_samples(4, samples));
    EXPECT_TRUE(trackers.flush());  // saves here
    EXPECT_TRUE(trackers.add(update_at(8, 0.4)));
    EXPECT_TRUE(trackers.add(evaluation_at(8, 0.5)));
    EXPECT_TRUE(trackers.add_histograms(8, lengths));
  }  // killed
  const fs::path run = *wandb_folder(folder.path());
  {
    Trackers trackers(settings_in(folder, 4, 4), history_of({update_at(4, 0.5), evaluation_at(4, 0.6)}));
    EXPECT_EQ(tensorboard_values(folder),
              (Names{"4 loss/train", "4 both", "4 loss/eval", "4 eval_tokens/chosen", "4 samples/1"}));
    EXPECT_TRUE(trackers.add(update_at(6, 0.45)));  // another moment of the log interval
    EXPECT_TRUE(trackers.finish(0));
  }
  const Names last = {"6 loss/train", "6 both"};
  const Names values = tensorboard_values(folder);
  EXPECT_EQ(Names(values.end() - 2, values.end()), last);
  EXPECT_EQ(*wandb_folder(folder.path()), run);
  EXPECT_EQ(wandb_rows(folder),
            (std::map<std::int64_t, Names>{{4,
                                            {"loss/train", "both", "loss/eval", "eval_tokens/chosen",
                                             "policy_samples", "reference_samples"}},
                                           {6, {"loss/train", "both"}}}));
}

// The run is killed, resumed, and killed again before it has logged anything.
TEST(Trackers, ARunThatIsKilledWhenItIsResumedKeepsHistogramsAndSamples) {
  const TempFolder folder;
  const std::vector<Row> history = {update_at(4, 0.5), evaluation_at(4, 0.6)};
  {
    Trackers trackers(settings_in(folder), {});
    for (const Row& row : history) trackers.add(row);
    trackers.add_histograms(4, std::vector<Distribution>{{"eval_tokens/chosen", {1, 2, 3}}});
    trackers.add_samples(4, std::vector<SampleText>{{"p", "a", std::nullopt}});
    trackers.flush();  // saves here
  }
  const std::map<std::int64_t, Names> rows = {
      {4, {"loss/train", "both", "loss/eval", "eval_tokens/chosen", "policy_samples"}}};
  for (int i = 0; i < 2; ++i) {
    const Trackers killed(settings_in(folder, 4, 4), history_of(history));
    EXPECT_EQ(wandb_rows(folder), rows);
  }
  // It must also hold if updates after the row were not logged.
  const Trackers killed(settings_in(folder, 6, 4), history_of(history));
  EXPECT_EQ(wandb_rows(folder), rows);
}

TEST(Trackers, AnEvaluationThatWasStoppedJoinsItsUpdateWhenTheRunIsResumed) {
  const TempFolder folder;
  const std::vector<Row> history = {update_at(2, 0.6), update_at(4, 0.5)};
  {
    Trackers trackers(settings_in(folder), {});
    for (const Row& row : history) trackers.add(row);
    trackers.finish(143);
  }
  {
    Trackers trackers(settings_in(folder, 4), history_of(history));
    trackers.add(evaluation_at(4, 0.6));  // killed before the next checkpoint
    trackers.add(update_at(6, 0.4));
  }
  EXPECT_EQ(wandb_rows(folder).at(4), (Names{"loss/train", "both", "loss/eval"}));
  Trackers(settings_in(folder, 4), history_of(history)).finish(0);
  EXPECT_EQ(wandb_rows(folder),
            (std::map<std::int64_t, Names>{{2, {"loss/train", "both"}}, {4, {"loss/train", "both"}}}));
  EXPECT_EQ(tensorboard_values(folder), (Names{"2 loss/train", "2 both", "4 loss/train", "4 both"}));
}

TEST(Trackers, ATrackerThatIsTurnedOnLaterGetsTheWholeHistory) {
  const TempFolder folder;
  Trackers(settings_in(folder, 8), history_of({update_at(4, 0.5), update_at(8, 0.4)})).finish(0);
  EXPECT_EQ(tensorboard_values(folder).size(), 4u);
  EXPECT_EQ(wandb_rows(folder).size(), 2u);
}

TEST(Trackers, FilesOfOtherProgramsAreNotTouched) {
  const TempFolder folder;
  fs::create_directories(folder.path() / "tensorboard");
  fs::create_directories(folder.path() / "wandb/offline-run-99990101_000000-abcdefgh");
  folder.write("tensorboard/events.out.tfevents.1.host.1.0", "theirs");
  folder.write("wandb/offline-run-99990101_000000-abcdefgh/run-abcdefgh.wandb", "theirs");
  Trackers(settings_in(folder), {}).finish(0);
  EXPECT_EQ(files_in(folder.path() / "tensorboard").size(), 2u);
  EXPECT_EQ(folder.read("tensorboard/events.out.tfevents.1.host.1.0"), "theirs");
  EXPECT_EQ(files_in(folder.path() / "wandb").size(), 2u);
  EXPECT_NE(wandb_folder(folder.path())->filename(), "offline-run-99990101_000000-abcdefgh");
  EXPECT_EQ(folder.read("wandb/offline-run-99990101_000000-abcdefgh/run-abcdefgh.wandb"), "theirs");
}

TEST(Trackers, WhatCannotBeWrittenIsKeptAndWrittenLater) {
  const TempFolder folder;
  folder.write("tensorboard", "a file where a folder is needed");
  Settings settings = settings_in(folder);
  settings.wandb.reset();
  Trackers trackers(settings, {});
  EXPECT_FALSE(trackers.add(update_at(4, 0.5)));
  fs::remove(folder.path() / "tensorboard");
  EXPECT_TRUE(trackers.add(update_at(8, 0.4)));
  EXPECT_EQ(tensorboard_values(folder), (Names{"4 loss/train", "4 both", "8 loss/train", "8 both"}));
}

TEST(Trackers, KeepWhatTheHistoryLacks) {
  const TempFolder folder;
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  {
    Trackers trackers(settings_in(folder), {});
    trackers.add(update_at(2, 0.6));  // metrics.jsonl has lost this row, and has null for the next
    trackers.add(update_at(4, kInfinite));
    trackers.finish(143);
  }
  Trackers(settings_in(folder, 4), history_of({{4, false, {{"both", 1}}}})).finish(0);
  EXPECT_EQ(wandb_rows(folder).at(2), (Names{"loss/train", "both"}));
  EXPECT_EQ(tensorboard_values(folder), (Names{"2 loss/train", "2 both", "4 both"}));
  Trackers(settings_in(folder, 6), history_of({{4, false, {{"both", 1}}}, update_at(6, 1)})).finish(0);
  EXPECT_EQ(tensorboard_values(folder),
            (Names{"2 loss/train", "2 both", "4 both", "6 loss/train", "6 both"}));
}

TEST(Trackers, TablesThatCannotBeWrittenAreWrittenLater) {
  const TempFolder folder;
  Settings settings = settings_in(folder);
  settings.tensorboard = false;
  Trackers trackers(settings, {});
  const fs::path media = *wandb_folder(folder.path()) / "files";
  std::ofstream(media) << "a file where a folder is needed";
  EXPECT_FALSE(trackers.add_samples(4, std::vector<SampleText>{{"p", "a", "r"}}));
  EXPECT_FALSE(trackers.flush());
  EXPECT_FALSE(trackers.finish(143));
  fs::remove(media);
  EXPECT_TRUE(trackers.finish(0));
  EXPECT_EQ(files_in(media / "media/table").size(), 2u);
}

TEST(AppendFile, GrowsByRecordsAndReplacesWhatWasThere) {
  const TempFolder folder;
  folder.write("file", "old and longer than the new contents");
  AppendFile file(folder.path() / "file", "new");
  EXPECT_EQ(folder.read("file"), "new");
  EXPECT_TRUE(file.append(" more"));
  EXPECT_EQ(file.size(), 8u);
  EXPECT_EQ(folder.read("file"), "new more");
}

TEST(AppendFile, ContinuesAfterTheBytesThatAreKept) {
  const TempFolder folder;
  folder.write("file", "kept, dropped");
  AppendFile file(folder.path() / "file", std::uint64_t{4});
  EXPECT_TRUE(file.is_written());
  EXPECT_EQ(folder.read("file"), "kept");
  EXPECT_TRUE(file.append(" more"));
  EXPECT_EQ(file.size(), 9u);
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

// The rows of a long run stay in the file. Only those at and after the checkpoint are written again.
TEST(Trackers, AResumedRunReadsOnlyTheEndOfItsHistory) {
  const TempFolder folder;
  {
    Trackers trackers(settings_in(folder), {});
    for (int i = 1; i <= 1000; ++i) trackers.add(update_at(4 * i, 0.5));
    trackers.finish(143);
  }
  std::vector<std::int64_t> asked;
  int given = 0;
  const History history = [&](std::int64_t first, const std::function<void(const Row&)>& use) {
    asked.push_back(first);
    for (int i = 1; i <= 900; ++i)
      if (4 * i >= first) use(update_at(4 * i, 0.5)), ++given;
  };
  Trackers(settings_in(folder, 3600), history).finish(0);
  EXPECT_EQ(asked.size(), 2u);
  EXPECT_LE(given, 2);
  EXPECT_EQ(wandb_rows(folder).size(), 900u);
  EXPECT_EQ(tensorboard_values(folder).size(), 2 * 900u);
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
