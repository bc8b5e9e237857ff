#include "run/run_log.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <thread>

namespace dpo::run {
namespace {

namespace fs = std::filesystem;

class Reports : public testing::Test {
 protected:
  ~Reports() override { fs::remove_all(path_); }

  const fs::path path_ = fs::path(testing::TempDir()) / "dpo_run_reports";
};

TEST_F(Reports, ThatCannotBeWrittenSayWhy) {
  RunFolder folder(FolderClaim(path_), {});
  EXPECT_EQ(folder.write_report(), "");  // no report was requested
  folder.use_report([](const fs::path&) { throw std::runtime_error("why"); });
  EXPECT_EQ(folder.write_report(), "why");
  folder.use_report([](const fs::path&) {});
  EXPECT_EQ(folder.write_report(), "");
}

TEST_F(Reports, TakeASmallPartOfTheTime) {
  RunFolder folder(FolderClaim(path_), {});
  int written = 0;
  folder.use_report([&](const fs::path&) {
    ++written;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });
  const train::Listener listener;
  RunLog log(folder, listener, {}, 1);
  const auto start = RunLog::Clock::now();
  for (int i = 0; i < 10; ++i) log.write_report();
  // The next one is due 5 s later, or more if writing took longer.
  EXPECT_LE(written, 1 + (RunLog::Clock::now() - start) / std::chrono::seconds(5));
}

// Simulates a run whose processes evaluate and sample, and collects all lines that each of them prints.
class ResumedLog : public testing::Test {
 protected:
  ResumedLog() { fs::remove_all(path_); }
  ~ResumedLog() override { fs::remove_all(path_); }

  struct Evaluation {
    std::int64_t examples = 0;
    std::int64_t tokens = 0;  // of each sample
  };

  std::string process(const RunState& from, std::initializer_list<Evaluation> evaluations) {
    std::string lines;
    const train::Listener listener{[&](const train::Event& event) { lines += event.line + "\n"; }, {}};
    RunFolder folder(FolderClaim(path_), from);
    RunLog log(folder, listener, {}, 20);
    log.replay_history();
    for (const Evaluation& each : evaluations) {
      const RunState now{.updates = each.examples / 8, .examples = each.examples};
      log.after_evaluation(
          {{"loss/eval", 0.6}, {"counters/examples", each.examples}, {"counters/updates", now.updates}}, {},
          now, 0.1);
      log.after_samples(std::vector<Sample>(8, Sample{"p", "text", each.tokens, true}), {}, now);
    }
    log.after_training({.updates = 20, .examples = 160});
    return lines;
  }

  static bool contains(const std::string& lines, const std::string& text) {
    return lines.find(text) != std::string::npos;
  }

  const fs::path path_ = fs::path(testing::TempDir()) / "dpo_resumed_log";
  const RunState checkpoint_{.updates = 6, .examples = 48, .evaluated = 40};
};

TEST_F(ResumedLog, ComparesSamplesWithThoseOfTheFirstProcess) {
  process({}, {{0, 50}, {40, 60}});
  EXPECT_TRUE(contains(process(checkpoint_, {{80, 85}}),
                       "warning: sampled responses get longer: 85 tokens on average, 50 at the first"));
}

TEST_F(ResumedLog, ComparesWithTheSamplesAfterTheFirstUpdate) {
  {
    RunFolder folder(FolderClaim(path_), {});
    folder.add_metrics({{"loss/train", 0.7}, {"counters/examples", 8}, {"counters/updates", 1}});
    folder.write_samples(8, std::vector<Sample>(8, Sample{"p", "text", 50, true}), {});
  }
  EXPECT_TRUE(contains(process({.updates = 2, .examples = 16, .evaluated = 0}, {{40, 85}}),
                       "warning: sampled responses get longer: 85 tokens on average, 50 at the first"));
}

TEST_F(ResumedLog, DropsSamplesThatAreDueAgain) {
  const auto kept = [&](const RunState& from) {
    std::filesystem::remove_all(path_);
    {
      RunFolder folder(FolderClaim(path_), {});
      for (const std::int64_t step : {8, 40, 80})
        folder.write_samples(step, std::vector<Sample>(1, Sample{"p", "text", 5, true}), {});
    }
    RunFolder resumed(FolderClaim(path_), from);
    std::vector<std::int64_t> steps;
    for (const std::int64_t step : {8, 40, 80})
      if (fs::exists(path_ / "samples" / fmt::format("step-{}.jsonl", step))) steps.push_back(step);
    return steps;
  };
  EXPECT_EQ(kept({.updates = 1, .examples = 8, .evaluated = 0}), (std::vector<std::int64_t>{}));
  EXPECT_EQ(kept({.updates = 2, .examples = 16, .evaluated = 0}), (std::vector<std::int64_t>{8}));
  EXPECT_EQ(kept({.updates = 5, .examples = 40, .evaluated = 0}), (std::vector<std::int64_t>{8}));
  EXPECT_EQ(kept({.updates = 5, .examples = 40, .evaluated = 40}), (std::vector<std::int64_t>{8, 40}));
}

TEST(SampleLines, SayWhatALimitHasCut) {
  const std::vector<Sample> policy = {{"p", "whole", 3, true, false}, {"q", "half", 64, false, true}};
  const std::vector<std::string> lines = to_json_lines(policy, {});
  EXPECT_EQ(lines[0].find("cut"), std::string::npos);
  EXPECT_FALSE(parse_sample(lines[0])->cut);
  EXPECT_TRUE(parse_sample(lines[1])->cut);
  EXPECT_EQ(sample_texts(policy, {}).at(1).policy, "half [cut]");
}

TEST_F(ResumedLog, RepeatsAWarningAboutSamplesOnlyAtTheEnd) {
  EXPECT_TRUE(contains(process({}, {{0, 50}, {40, 100}}), "warning: sampled responses get longer"));
  const std::string resumed = process(checkpoint_, {{80, 110}});
  EXPECT_FALSE(contains(resumed, "warning: ")) << resumed;
  EXPECT_TRUE(contains(resumed, "warnings of this run:\n  * sampled responses get longer: 100 tokens"))
      << resumed;
}

TEST_F(ResumedLog, ForgetsSamplesAfterTheCheckpoint) {
  EXPECT_TRUE(contains(process({}, {{0, 50}, {40, 60}, {80, 100}}), "longer: 100 tokens"));
  EXPECT_FALSE(contains(process(checkpoint_, {{80, 70}}), "longer"));
}

TEST_F(ResumedLog, ToleratesSamplesWithoutLengths) {
  process({}, {{0, 50}, {40, 60}});
  for (const char* name : {"step-0.jsonl", "step-40.jsonl"}) {
    std::ofstream file(path_ / "samples" / name);
    for (int i = 0; i < 8; ++i)
      file << R"({"prompt": "p", "policy": "text"})"
           << "\n";
  }
  EXPECT_FALSE(contains(process(checkpoint_, {{80, 85}}), "longer"));
}

TEST(Summary, SaysWhatThisProcessDid) {
  EXPECT_EQ(summary(400, 1600, {400, 190, 5312.4}),
            "done: 400 updates, 1,600 examples in 3 min, 5,312 tokens/s in training");
  EXPECT_EQ(
      summary(400, 1600, {1, 0.2, 10}),
      "done: 400 updates, 1,600 examples; since it was resumed 1 update in 1 s, 10 tokens/s in training");
  EXPECT_EQ(summary(400, 1600, {0, 0, NAN}),
            "done: 400 updates, 1,600 examples; all of them before it was resumed");
}

TEST(Summary, SaysWhatWasLearned) {
  const Metrics first = {{"loss/eval", 0.69314},
                         {"rewards_eval/accuracies", 0},
                         {"rewards_eval/margins", 0},
                         {"counters/eval_examples", 16},
                         {"counters/examples", 0}};
  const Metrics last = {{"loss/eval", 0.41267},
                        {"rewards_eval/accuracies", 0.8125},
                        {"rewards_eval/margins", 1.2341},
                        {"counters/eval_examples", 16},
                        {"counters/examples", 320}};
  EXPECT_EQ(learned(first, last),
            "evaluation: loss 0.6931 -> 0.4127, accuracy 0.5 (ties, n=16) -> 0.812 (n=16), margin +0.000 -> "
            "+1.234");
  EXPECT_EQ(verdict(first, last),
            "did it learn? Yes: after 320 examples the reward accuracy on 16 held-out examples is 0.812 "
            "(chance is 0.500, give or take 0.250), the mean margin +1.234, and the loss fell from 0.6931 to "
            "0.4127.");
  EXPECT_EQ(learned(last, last), "evaluation: loss 0.4127, accuracy 0.812 (n=16), margin +1.234");
  EXPECT_EQ(learned({{"loss/eval", 3.25}}, {{"loss/eval", 2.5}}), "evaluation: loss 3.2500 -> 2.5000");
  EXPECT_EQ(learned({{"loss/eval", NAN}}, {{"loss/eval", 2.5}}), "evaluation: loss 2.5000");
}

}  // namespace
}  // namespace dpo::run
