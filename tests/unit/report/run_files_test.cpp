#include "report/followed_run.h"

#include <sys/stat.h>

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "report/changes.h"

namespace dpo::report {
namespace {

namespace fs = std::filesystem;

LogFacts read_log(const fs::path& file) {
  FollowedRun run(file.parent_path());
  run.read();
  return run.log();
}

class RunFiles : public testing::Test {
 protected:
  RunFiles() { fs::create_directories(folder_); }
  ~RunFiles() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / "dpo_report_run_files";
};

// Copying a deeply nested value would overflow the stack, and end a server that shows the run.
TEST_F(RunFiles, AreNotNestedDeeply) {
  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  EXPECT_TRUE(read_object(write("plan.json", "{\"a\": " + deep + "}")).is_null());
  EXPECT_TRUE(read_evaluation(write("step-0.jsonl",
                                    "{\"example\": 3, \"loss\": 0.5, \"logps\": [-1, -2], "
                                    "\"rewards\": [1, 0.5], \"other\": " +
                                        deep + "}\n"))
                  .empty());
}

TEST_F(RunFiles, EvaluationsSkipWhatIsDamaged) {
  const auto examples =
      read_evaluation(write("step-0.jsonl",
                            "{\"example\": 3, \"loss\": 0.5, \"logps\": [-1, -2], \"rewards\": [1, 0.5]}\n"
                            "[]\nnull\n{}\n{\"example\": \"4\", \"logps\": [1], \"rewards\": [1]}\n"
                            "{\"example\": 5, \"logps\": [1], \"rewards\": [1, 2]}\n"
                            "{\"example\": 6, \"logps\": [], \"rewards\": []}\n"
                            "{\"example\": 7, \"logps\": [1], \"rewards\": [-2], \"desirable\": false}\n"
                            "{\"example\": 9, \"logps\": [1, 2], \"rewards\": [1e308, -1e308]}\n"
                            "{\"example\": 8, \"logps\": [1"));
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_EQ(examples[0].rewards, (std::vector<double>{1, 0.5}));
  EXPECT_FALSE(examples[1].desirable);
  EXPECT_TRUE(read_evaluation(folder_ / "absent").empty());
}

TEST_F(RunFiles, TextsAreThoseWanted) {
  std::string lines;
  for (int i = 0; i < 100; ++i)
    lines += "{\"example\": " + std::to_string(i) + ", \"prompt\": \"p" + std::to_string(i) +
             "\", \"responses\": [\"a\", 1, \"b\"]}\n";
  const auto texts = read_texts(write("eval_examples.jsonl", lines), {4, 50, 1000});
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts.at(50).prompt, "p50");
  EXPECT_EQ(texts.at(4).responses, (std::vector<std::string>{"a", "b"}));
}

TEST_F(RunFiles, TextsAreFoundInPromptsAndResponses) {
  const fs::path file = write("eval_examples.jsonl",
                              "{\"example\": 1, \"prompt\": \"Red cups\", \"responses\": [\"a\"]}\n"
                              "{\"example\": 2, \"prompt\": \"p\", \"responses\": [\"a\", \"two RED é\"]}\n"
                              "{\"example\": 3, \"prompt\": \"blue\", \"responses\": []}\n{\"exa");
  EXPECT_EQ(find_texts(file, "red"), (std::set<std::int64_t>{1, 2}));
  EXPECT_EQ(find_texts(file, "é"), (std::set<std::int64_t>{2}));
  EXPECT_EQ(find_texts(file, ""), (std::set<std::int64_t>{1, 2, 3}));
  EXPECT_TRUE(find_texts(file, "green").empty());
}

TEST_F(RunFiles, APipeIsNoFile) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(read_object(pipe).is_null());
  EXPECT_TRUE(read_evaluation(pipe).empty());
  EXPECT_TRUE(read_log(pipe).warnings.empty());
}

TEST_F(RunFiles, StepsAreInOrderOfTheirNumbers) {
  for (const char* name :
       {"step-100.jsonl", "step-20.jsonl", "step-0.jsonl", "step-.jsonl", "step-1x.jsonl", "other"})
    write(name, "");
  EXPECT_EQ(steps_in(folder_), (std::vector<std::int64_t>{0, 20, 100}));
  EXPECT_TRUE(steps_in(folder_ / "absent").empty());
}

TEST_F(RunFiles, TheLogSaysHowTheRunEnded) {
  const std::string time = "2026-11-17 04:25:00  ";
  const std::string start =
      time + "dpo 0.1\nwarning: of the plan\n" + time + "run folder x\n" + time + "warning: slow\n";
  const LogFacts running = read_log(write("log.txt", start + "done: not a line of its own\n"));
  EXPECT_EQ(running.status, LogFacts::Status::unknown);
  EXPECT_EQ(running.warnings, std::vector<std::string>{"slow"});
  const std::string stopped = start + time + "stopped by a signal after update 3 of 9; resume\n";
  EXPECT_EQ(read_log(write("log.txt", stopped)).status, LogFacts::Status::stopped);
  const std::string resumed = stopped + time + "resuming x\n" + time + "warning: slow\n";
  EXPECT_EQ(read_log(write("log.txt", resumed)).status, LogFacts::Status::unknown);
  const LogFacts failed = read_log(write("log.txt", resumed + time + "error: NaN\n"));
  EXPECT_EQ(failed.status, LogFacts::Status::failed);
  EXPECT_EQ(failed.reason, "error: NaN");
  EXPECT_EQ(failed.warnings.size(), 1u);
  const LogFacts done =
      read_log(write("log.txt", resumed + time + "done: 9 updates\n" + time + "evaluation: loss 1\n"));
  EXPECT_EQ(done.status, LogFacts::Status::finished);
  EXPECT_EQ(done.reason, "done: 9 updates");
}

TEST_F(RunFiles, ARunThatBeginsAgainHasOnlyItsOwnWarnings) {
  const std::string time = "2026-11-17 04:25:00  ";
  const std::string killed =
      time + "dpo 0.1\n" + time + "run folder x\n" + time + "warning: cut\n" + time + "warning: slow\n";
  const std::string again = killed + time + "dpo 0.1\nPlan\n" + time + "run folder x\n";
  EXPECT_TRUE(read_log(write("log.txt", again)).warnings.empty());
  EXPECT_EQ(read_log(write("log.txt", again + time + "warning: slow\n")).warnings,
            std::vector<std::string>{"slow"});
  const std::string resumed = killed + time + "dpo 0.1\nPlan\n" + time + "resuming x\n";
  EXPECT_EQ(read_log(write("log.txt", resumed + time + "warning: late\n")).warnings,
            (std::vector<std::string>{"cut", "slow", "late"}));
}

TEST_F(RunFiles, ObjectsAreNullIfTheyAreNone) {
  EXPECT_EQ(read_object(write("plan.json", "{\"a\": 1}"))["a"], 1);
  EXPECT_TRUE(read_object(write("plan.json", "[1]")).is_null());
  EXPECT_TRUE(read_object(write("plan.json", "{\"a\"")).is_null());
  EXPECT_TRUE(read_object(folder_ / "absent").is_null());
}

EvaluatedExample pair(std::int64_t example, double chosen, double rejected) {
  return {.example = example, .logps = {-1, -1}, .rewards = {chosen, rejected}};
}

TEST(Changes, AreTheLargestAndThoseStillWrong) {
  const std::vector<EvaluatedExample> first = {pair(1, 0, 0), pair(2, 1, 0), pair(3, 0, 0.5), pair(4, 0, 0)};
  const std::vector<EvaluatedExample> last = {pair(1, 2, 0), pair(2, 0, 2), pair(3, 0.25, 0.5), pair(4, 0, 0),
                                              pair(5, 0, 9)};
  const Changes changes = compare(first, last, 2);
  EXPECT_EQ(changes.score, Score::margin);
  EXPECT_EQ(changes.examples, 5u);
  EXPECT_EQ(changes.wrong, 4u);
  ASSERT_EQ(changes.largest.size(), 2u);
  EXPECT_EQ(changes.largest[0].example, 2);
  EXPECT_EQ(changes.largest[0].size(), -3);
  EXPECT_EQ(changes.largest[1].example, 1);
  ASSERT_EQ(changes.worst.size(), 2u);
  EXPECT_EQ(changes.worst[0].example, 5);
  EXPECT_FALSE(changes.worst[0].before.has_value());
  EXPECT_EQ(changes.worst[1].example, 2);
}

TEST(Changes, OfLabelsAndOfSft) {
  const std::vector<EvaluatedExample> labels = {
      {.example = 1, .logps = {-1}, .rewards = {2}},
      {.example = 2, .logps = {-1}, .rewards = {3}, .desirable = false}};
  const Changes rewards = compare({}, labels, 5);
  EXPECT_EQ(rewards.score, Score::reward);
  EXPECT_EQ(rewards.wrong, 1u);
  EXPECT_EQ(rewards.worst[0].now, -3);
  EXPECT_TRUE(rewards.largest.empty());
  const std::vector<EvaluatedExample> sft = {{.example = 1, .loss = 2, .logps = {-1}, .rewards = {0}},
                                             {.example = 2, .loss = 3, .logps = {-1}, .rewards = {0}}};
  const Changes losses = compare(sft, sft, 1);
  EXPECT_EQ(losses.score, Score::loss);
  ASSERT_EQ(losses.worst.size(), 1u);
  EXPECT_EQ(losses.worst[0].example, 2);
  EXPECT_TRUE(compare({}, {}, 5).worst.empty());
}

TEST(Changes, OfSingleResponsesAmongPairsAreNone) {
  const std::vector<EvaluatedExample> mixed = {
      pair(1, 1, 0), pair(2, 0, 1), {.example = 3, .logps = {-1}, .rewards = {2}}};
  const Changes changes = compare({}, mixed, 5);
  EXPECT_EQ(changes.examples, 2u);
  EXPECT_EQ(changes.wrong, 1u);
  EXPECT_EQ(scores_of(mixed, Score::margin), (std::vector<double>{1, -1}));
}

// Before the first update all scores are equal, and the ten worst would be arbitrary.
TEST(Changes, OfEqualScoresHaveNoWorst) {
  const Changes changes = compare({}, {pair(1, 0, 0), pair(2, 0, 0)}, 5);
  EXPECT_EQ(changes.wrong, 2u);
  EXPECT_TRUE(changes.worst.empty());
}

TEST(Histogram, SharesAddUpToOne) {
  const std::vector<Point> bars = histogram({0, 1, 2, 3, 4}, 0, 4, 2);
  ASSERT_EQ(bars.size(), 3u);
  EXPECT_DOUBLE_EQ(bars[0].y, 0.4);
  EXPECT_DOUBLE_EQ(bars[1].y, 0.6);  // the upper bound is in the last bar
  EXPECT_EQ(bars[2].x, 4);
  EXPECT_EQ(bars[2].y, 0);
}

}  // namespace
}  // namespace dpo::report
