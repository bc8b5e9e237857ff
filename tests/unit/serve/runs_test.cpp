#include "serve/runs.h"

#include <algorithm>
#include <thread>

#include <nlohmann/json.hpp>

#include "run_folder.h"

namespace dpo::serve {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using FoundRuns = RunFolder;

const std::string kTime = "2026-11-17 04:25:00  ";

TEST_F(FoundRuns, AreFoundBelowFolders) {
  write("a/metrics.jsonl", "");
  write("b/c/metrics.jsonl", "");
  write("a/step-32/metrics.jsonl", "");  // inside a run
  write(".hidden/metrics.jsonl", "");
  write(".cache/user/run/metrics.jsonl", "");
  write("1/2/3/4/5/metrics.jsonl", "");  // too deep
  fs::create_directory_symlink(folder_ / "a", folder_ / "link");
  fs::create_directory_symlink(folder_, folder_ / "circle");
  const auto runs = find_runs({folder_, folder_});
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_NE(runs[0].id, runs[1].id);
  const auto alone = find_runs({folder_});
  EXPECT_EQ(alone[0].name, ".cache/user/run");
  EXPECT_EQ(alone[1].name, "a");
  EXPECT_EQ(alone[2].name, "b/c");
  EXPECT_EQ(find_runs({folder_ / "a"})[0].name, "a");
  EXPECT_EQ(find_runs({folder_ / "a"})[0].id, alone[1].id);
  EXPECT_TRUE(find_runs({folder_ / "absent"}).empty());
}

TEST_F(FoundRuns, OfManyTheNewestAreKept) {
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 502; ++i)
    fs::last_write_time(write(std::to_string(i) + "/metrics.jsonl", ""), now - std::chrono::seconds(i));
  const auto runs = find_runs({folder_});
  EXPECT_EQ(runs.size(), 500u);
  for (const char* name : {"500", "501"})
    EXPECT_EQ(std::ranges::find(runs, name, &Run::name), runs.end()) << name;
}

TEST_F(FoundRuns, HaveAStatusFromTheirFiles) {
  write("run/metrics.jsonl", "");
  write("run/log.txt", kTime + "run folder x\n");
  Runs runs({folder_});
  const auto status = [&] { return runs.list().at(0).at("status").get<std::string>(); };
  EXPECT_EQ(status(), "running");
  add("run/log.txt", kTime + "stopped by a signal after update 3 of 9; x\n");
  EXPECT_EQ(status(), "stopped");
  add("run/log.txt", kTime + "resuming from x\n");
  EXPECT_EQ(status(), "running");
  for (const char* name : {"run/log.txt", "run/metrics.jsonl"})
    fs::last_write_time(folder_ / name, fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(status(), "silent");
  add("run/metrics.jsonl", "{}\n");
  EXPECT_EQ(status(), "running");
  add("run/log.txt", kTime + "error: update 4: loss is NaN\n");
  EXPECT_EQ(status(), "failed");
  EXPECT_EQ(runs.list().at(0).at("reason"), "error: update 4: loss is NaN");
  write("run/log.txt", kTime + "run folder x\n" + kTime + "done: 9 updates\n");
  EXPECT_EQ(status(), "finished");
}

TEST_F(FoundRuns, ShowTheirLastValues) {
  write("run/plan.json", R"({"time": {"updates": 12}})");
  std::string lines;
  for (int i = 1; i <= 5000; ++i)
    lines += R"({"loss/train": 0.5, "loss/eval": 1.5, "counters/updates": )" + std::to_string(i) + "}\n";
  write("run/metrics.jsonl",
        lines + "[]\nnot json\n{\"loss/train\": 0.25}\n{\"loss/train\": \"x\"}\n{\"loss/tr");
  Runs runs({folder_});
  const json run = runs.list().at(0);
  EXPECT_EQ(run["values"]["loss/train"], 0.25);
  EXPECT_EQ(run["values"]["loss/eval"], 1.5);
  EXPECT_EQ(run["values"]["counters/updates"], 5000);
  EXPECT_EQ(run["planned_updates"], 12);
  EXPECT_EQ(runs.find(run["id"])->folder, fs::canonical(folder_ / "run"));
  for (const char* id : {"", "..", "../run", "/", "run"}) EXPECT_FALSE(runs.find(id)) << id;
}

TEST_F(FoundRuns, ShowTiesAsTiesAndHowManyExamples) {
  write("run/metrics.jsonl",
        R"({"rewards_eval/accuracies": 0, "rewards_eval/margins": 0, "counters/eval_examples": 16})"
        "\n");
  Runs runs({folder_});
  EXPECT_EQ(runs.list().at(0)["accuracy"], "0.5 (ties, n=16)");
  add("run/metrics.jsonl",
      R"({"rewards_eval/accuracies": 0.75, "rewards_eval/margins": 1.5, "counters/eval_examples": 16})"
      "\n");
  EXPECT_EQ(runs.list().at(0)["accuracy"], "0.750 (n=16)");
}

TEST_F(FoundRuns, CanBeReadByThreadsWhileTheyChange) {
  write("run/metrics.jsonl", "");
  Runs runs({folder_});
  const std::string id = runs.list().at(0).at("id");
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i)
    readers.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        EXPECT_TRUE(runs.find(id));
        EXPECT_EQ(runs.list().size(), 1u);
      }
    });
  for (int i = 1; i <= 200; ++i) {
    add("run/metrics.jsonl", "{\"counters/updates\": " + std::to_string(i) + "}\n");
    if (i % 50 == 0) write("run/metrics.jsonl", "");
  }
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace dpo::serve
