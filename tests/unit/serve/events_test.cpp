#include "serve/events.h"

#include <nlohmann/json.hpp>

#include "run_folder.h"

namespace dpo::serve {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Events = RunFolder;

// Returns the data of the events of one kind.
std::vector<json> events_in(const std::string& text, const std::string& name) {
  std::vector<json> found;
  const std::string start = "event: " + name + "\ndata: ";
  for (std::size_t at = text.find(start); at != text.npos; at = text.find(start, at + 1)) {
    const std::size_t begin = at + start.size();
    found.push_back(json::parse(text.substr(begin, text.find("\n\n", begin) - begin)));
  }
  return found;
}

std::string line(int examples, double loss, const char* name = "loss/train") {
  return json{{name, loss}, {"counters/examples", examples}}.dump() + "\n";
}

TEST_F(Events, SendTheListThenPointsAsTheyAreAdded) {
  write("run/metrics.jsonl", line(32, 0.5) + "damaged\n" + line(64, 0.25));
  Runs runs({folder_});
  EventStream stream(runs, find_runs({folder_}));
  const std::string first = stream.next();
  EXPECT_EQ(events_in(first, "runs").at(0).at(0).at("name"), "run");
  const json points = events_in(first, "points").at(0);
  EXPECT_TRUE(points["again"]);
  EXPECT_EQ(points["metrics"], json::parse(R"({"loss/train": [[32, 64], [0.5, 0.25]]})"));
  EXPECT_EQ(stream.next(), "");
  add("run/metrics.jsonl", line(96, 0.125) + "{\"loss/train\": ");
  const json more = events_in(stream.next(), "points").at(0);
  EXPECT_FALSE(more["again"]);
  EXPECT_EQ(more["metrics"], json::parse(R"({"loss/train": [[96], [0.125]]})"));
  write("run/metrics.jsonl", line(32, 0.5));  // resumed from an older checkpoint
  EXPECT_TRUE(events_in(stream.next(), "points").at(0)["again"]);
}

TEST_F(Events, SayWhetherTheRunsAreEvaluatedOnTheSameExamples) {
  const auto evaluated = [&](const std::string& name, int examples, const std::string& digest) {
    write(name + "/plan.json", json{{"held_out_sha256", digest}}.dump());
    write(name + "/metrics.jsonl",
          json{{"loss/eval", 0.5}, {"counters/eval_examples", examples}}.dump() + "\n");
  };
  evaluated("a", 16, "01");
  evaluated("b", 16, "01");
  evaluated("c", 5, "02");
  const auto first = [&](const std::vector<fs::path>& folders) {
    Runs runs({folder_});
    EventStream stream(runs, find_runs(folders));
    return events_in(stream.next(), "held-out").at(0);
  };
  EXPECT_EQ(first({folder_ / "a", folder_ / "b"}), json::parse(R"({"text": "", "differ": false})"));
  EXPECT_EQ(first({folder_ / "a", folder_ / "c"}),
            json::parse(
                R"({"text": "different held-out sets: 5 and 16 examples; not comparable", "differ": true})"));
}

TEST_F(Events, CountTiesAsHalf) {
  const auto ties = [](int examples) {
    return json{{"rewards_eval/accuracies", 0}, {"rewards_eval/margins", 0}, {"counters/examples", examples}}
               .dump() +
           "\n";
  };
  write("run/metrics.jsonl", ties(0));
  Runs runs({folder_});
  EventStream stream(runs, find_runs({folder_}));
  EXPECT_EQ(events_in(stream.next(), "points").at(0)["metrics"]["rewards_eval/accuracies"][1][0], 0.5);
  add("run/metrics.jsonl", ties(32));
  EXPECT_EQ(events_in(stream.next(), "points").at(0)["metrics"]["rewards_eval/accuracies"][1][0], 0.5);
}

TEST_F(Events, AnEmptyRunSaysSoOnce) {
  write("run/metrics.jsonl", "");
  Runs runs({folder_});
  EventStream stream(runs, find_runs({folder_}));
  EXPECT_EQ(events_in(stream.next(), "points").at(0)["metrics"], json::object());
  EXPECT_EQ(stream.next(), "");
}

TEST_F(Events, ALongRunBeginsWithFewerPoints) {
  std::string lines;
  for (int i = 0; i < 20'000; ++i) lines += line(i, i) + line(i, i, "loss/eval");
  write("run/metrics.jsonl", lines);
  Runs runs({folder_});
  EventStream stream(runs, find_runs({folder_}));
  const json metrics = events_in(stream.next(), "points").at(0)["metrics"];
  EXPECT_EQ(metrics["loss/train"][0].size(), kMostPoints);
  EXPECT_EQ(metrics["loss/eval"][0].size(), kMostPoints);
  EXPECT_EQ(metrics["loss/eval"][0].back(), 19'999);
}

TEST_F(Events, NamesAndTextsStayWithinTheirEvent) {
  write("a\nevent: x\ndata: 1\n\n/metrics.jsonl",
        "{\"a\\nb\\u2028\": 1, \"x\": \"y\", \"counters/examples\": 1}\n");
  Runs runs({folder_});
  EventStream stream(runs, find_runs({folder_}));
  const std::string text = stream.next();
  EXPECT_TRUE(events_in(text, "x").empty());
  EXPECT_EQ(events_in(text, "points").at(0)["metrics"].begin().key(), "a\nb\u2028");
}

}  // namespace
}  // namespace dpo::serve
