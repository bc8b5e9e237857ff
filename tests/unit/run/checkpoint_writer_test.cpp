#include <chrono>
#include <fstream>
#include <memory>
#include <thread>

#include "base/output_files.h"
#include "run/folder.h"
#include "run/snapshot.h"
#include "train/events.h"
#include "unit/run/checkpoints.h"

namespace dpo::run {
namespace {

void wait_for(const fs::path& file) {
  while (!fs::exists(file)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

// Returns the message of the error that finish() throws, or "".
std::string failure_message(CheckpointWriter& writer) {
  try {
    writer.finish();
  } catch (const train::TrainingFailure& failure) {
    return failure.what();
  }
  return "";
}

TEST_F(Checkpoints, AreCompleteOnlyWithEveryRanksPart) {
  const std::vector<RankPart> parts = parts_of({1, 2, 1});
  fs::create_directories(folder_ / "run");
  CheckpointWriter first(folder_ / "run", std::nullopt, parts[0]);
  CheckpointWriter second(folder_ / "run", std::nullopt, parts[1]);
  first.write(trained("gpt2", parts[0]).snapshot(8), false);
  wait_for(folder_ / "run" / "step-8.tmp.launch.signs" / "part-0.done");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(fs::exists(folder_ / "run" / "step-8"));
  second.write(trained("gpt2", parts[1]).snapshot(8), false);
  second.finish();
  EXPECT_TRUE(is_complete(folder_ / "run" / "step-8"));
  first.finish();
  // Writes the same step again, which already exists.
  first.write(trained("gpt2", parts[0]).snapshot(8), true);
  second.write(trained("gpt2", parts[1]).snapshot(8), true);
  first.finish();
  second.finish();
  EXPECT_EQ(fs::read_symlink(folder_ / "run" / "BEST"), "step-8");
}

TEST_F(Checkpoints, FailOnAllRanksWithTheMessageOfOne) {
  const fs::path run = folder_ / "run", file = run / "step-16.tmp.launch" / "model.safetensors";
  save("run", "gpt2", {1, 3, 1});
  std::vector<std::unique_ptr<CheckpointWriter>> writers;
  const std::vector<RankPart> parts = parts_of({1, 3, 1});
  for (const RankPart& part : parts)
    writers.push_back(std::make_unique<CheckpointWriter>(run, std::nullopt, part));
  for (const int rank : {0, 1}) {
    writers[rank]->write(trained("gpt2", parts[rank]).snapshot(16), false);
    wait_for(run / "step-16.tmp.launch.signs" / ("part-" + std::to_string(rank) + ".done"));
  }
  fs::remove(file);  // as another user with write access could, before the last rank opens it
  write_file(folder_ / "mine", "mine");
  fs::create_symlink(folder_ / "mine", file);
  writers[2]->write(trained("gpt2", parts[2]).snapshot(16), false);
  for (auto& writer : writers) {
    const std::string message = failure_message(*writer);
    EXPECT_NE(message.find("rank 2: " + file.string() + " is a symbolic link, so nothing is written to it"),
              std::string::npos)
        << message;
    writer->check();  // once is enough
  }
  EXPECT_EQ(read_text_file(folder_ / "mine", "test"), "mine");
  EXPECT_FALSE(fs::exists(run / "step-16") || fs::exists(run / "step-16.tmp.launch"));
  EXPECT_EQ(fs::read_symlink(run / "LATEST"), "step-8");
  verify_checkpoint(run / "step-8");
  RunFolder resumed(FolderClaim(run), {.examples = 8});
  EXPECT_EQ(names_in(run), (std::set<std::string>{"step-8", "LATEST", ".lock", "metrics.jsonl", "log.txt"}));
}

TEST_F(Checkpoints, FailOnAllRanksWhenTheFirstCannotBegin) {
  const std::vector<RankPart> parts = parts_of({1, 2, 1});
  fs::create_directories(folder_ / "run" / "step-8.tmp.launch");  // must not exist
  CheckpointWriter first(folder_ / "run", std::nullopt, parts[0]);
  CheckpointWriter second(folder_ / "run", std::nullopt, parts[1]);
  first.write(trained("gpt2", parts[0]).snapshot(8), false);
  second.write(trained("gpt2", parts[1]).snapshot(8), false);
  for (CheckpointWriter* writer : {&first, &second})
    EXPECT_NE(failure_message(*writer).find("step-8.tmp.launch failed: File exists"), std::string::npos);
}

// Files left by a killed process are ignored.
TEST_F(Checkpoints, AreNotConfusedByWhatAnotherLaunchLeft) {
  for (const char* left : {"step-8.tmp.other", "step-8.tmp.other.signs"})
    fs::create_directories(folder_ / "run" / left);
  for (const char* sign : {"ready", "part-0.done", "part-1.done", "failed"})
    std::ofstream(folder_ / "run" / "step-8.tmp.other.signs" / sign) << "old";
  std::ofstream(folder_ / "run" / ".start-7799f49c887b0d72") << "";
  EXPECT_EQ(contents_of(save("run", "gpt2", {1, 2, 1})), contents_of(save("clean", "gpt2", {})));
  RunFolder resumed(FolderClaim(folder_ / "run"), {.examples = 8});
  EXPECT_FALSE(fs::exists(folder_ / "run" / "step-8.tmp.other"));
  EXPECT_FALSE(fs::exists(folder_ / "run" / "step-8.tmp.other.signs"));
  EXPECT_FALSE(fs::exists(folder_ / "run" / ".start-7799f49c887b0d72"));
}

TEST_F(Checkpoints, OfTheRunAreThePastFewAndTheBest) {
  fs::create_directories(folder_ / "run");
  std::vector<std::jthread> ranks;
  for (const RankPart& part : parts_of({1, 2, 1}))
    ranks.emplace_back([&, part] {
      CheckpointWriter writer(folder_ / "run", 2, part);
      for (const std::int64_t examples : {8, 16, 24, 32})
        writer.write(trained("gpt2", part).snapshot(examples), examples == 8);
      writer.finish();
    });
  ranks.clear();
  EXPECT_EQ(names_in(folder_ / "run"),
            (std::set<std::string>{"step-8", "step-24", "step-32", "LATEST", "BEST"}));
  EXPECT_EQ(fs::read_symlink(folder_ / "run" / "LATEST"), "step-32");
  EXPECT_EQ(fs::read_symlink(folder_ / "run" / "BEST"), "step-8");
}

// A best checkpoint of other examples, and any other target of a link, must stay.
TEST_F(Checkpoints, ThatLinksNameStay) {
  fs::create_directories(folder_ / "run");
  CheckpointWriter writer(folder_ / "run", 1);
  const auto write = [&](std::int64_t examples, const std::string& set, bool is_best) {
    Snapshot snapshot = trained("gpt2", {}).snapshot(examples);
    snapshot.run_state.comparison = {"loss/eval", set};
    writer.write(std::move(snapshot), is_best);
    writer.finish();
  };
  write(8, "one", true);
  write(16, "one", true);
  EXPECT_EQ(names_in(folder_ / "run"), (std::set<std::string>{"step-16", "LATEST", "BEST"}));
  fs::create_symlink(folder_ / "run" / "step-16", folder_ / "run" / "mine");
  write(24, "one", true);
  write(32, "another", false);
  write(40, "another", true);
  write(48, "another", false);
  EXPECT_EQ(names_in(folder_ / "run"), (std::set<std::string>{"step-16", "step-24", "step-40", "step-48",
                                                              "LATEST", "BEST", "BEST.old-1", "mine"}));
  EXPECT_EQ(fs::read_symlink(folder_ / "run" / "BEST.old-1"), "step-24");
  EXPECT_EQ(fs::read_symlink(folder_ / "run" / "BEST"), "step-40");
}

// A rank that fails in training must not wait for others, which may have ended.
TEST_F(Checkpoints, AreCancelledWithTheirWriter) {
  const std::vector<RankPart> parts = parts_of({1, 2, 1});
  for (const RankPart& part : parts) {
    const fs::path run = folder_ / ("run-" + std::to_string(part.rank));
    fs::create_directories(run);
    CheckpointWriter(run, std::nullopt, part).write(trained("gpt2", part).snapshot(8), false);
    EXPECT_FALSE(fs::exists(run / "step-8") || fs::exists(run / "step-8.tmp.launch"));
  }
}

}  // namespace
}  // namespace dpo::run
