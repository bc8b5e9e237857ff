#include "track/mlflow.h"

#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <functional>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "fuzz/temp_folder.h"
#include "http/http.h"
#include "track/mlflow_files.h"
#include "track/mlflow_sender.h"

namespace dpo::track {
namespace {

using fuzz::TempFolder;
using Json = nlohmann::ordered_json;

constexpr const char* kNothingListens = "http://127.0.0.1:1";

Row update_with(std::int64_t step, int values) {
  Row row{.step = step};
  for (int i = 0; i < values; ++i) row.values.emplace_back("m" + std::to_string(i), i);
  return row;
}

Row update_at(std::int64_t step) { return {step, false, {{"loss/train", 0.5}, {"counter", 1}}}; }
Row evaluation_at(std::int64_t step) { return {step, true, {{"loss/eval", 0.6}, {"counter", 1}}}; }

Settings mlflow_in(const TempFolder& folder, const std::string& uri = kNothingListens) {
  using std::chrono::milliseconds;
  return {.folder = folder.path(),
          .config = R"({"lr": 0.001, "loss": {"name": "dpo"}})",
          .mlflow = MlflowSettings{uri, "experiment", "tiny", milliseconds(10), milliseconds(10),
                                   milliseconds(10), milliseconds(2000)}};
}

// Returns "STEP NAME" of every metric, and the other lines.
std::vector<std::string> queue_of(const TempFolder& folder) {
  std::vector<std::string> all;
  std::ifstream lines(mlflow_queue(folder.path()));
  for (std::string line; std::getline(lines, line);) {
    const Json parsed = Json::parse(line);
    if (!parsed.contains("metrics"))
      all.push_back(parsed.value("status", parsed.begin().key()));
    else
      for (const auto& [name, value] : parsed["metrics"].items())
        all.push_back(parsed["step"].dump() + " " + name);
  }
  return all;
}

using Names = std::vector<std::string>;

TEST(MlflowRequest, SkipsDamagedLines) {
  for (const std::string line :
       {R"({"metrics": {"m": 1}})", R"({"metrics": {"m": 1}, "step": "x", "time": 1})",
        R"({"metrics": 3, "step": 1, "time": 1})", R"({"artifact": 1, "text": 2})", R"({"status": "RUNNED"})",
        "{", "3"}) {
    EXPECT_EQ(next_request(line + "\n", "run").kind, MlflowRequest::Kind::none) << line;
    std::istringstream queue(line + "\n");
    EXPECT_TRUE(queued_rows(queue).rows.empty()) << line;
  }
}

TEST(MlflowRequest, ContainsAtMostAThousandMetrics) {
  std::string lines;
  for (int step = 0; step < 100; ++step) lines += metrics_line(update_with(step, 24), 1700000000000);
  const MlflowRequest first = next_request(lines, "run");
  EXPECT_EQ(first.kind, MlflowRequest::Kind::batch);
  EXPECT_EQ(first.values, 41 * 24);
  const Json body = Json::parse(first.body);
  EXPECT_EQ(body["run_id"], "run");
  EXPECT_EQ(body["metrics"].size(), 41u * 24);
  EXPECT_EQ(body["metrics"][25],
            Json({{"key", "m1"}, {"value", 1.0}, {"timestamp", 1700000000000}, {"step", 1}}));
  std::int64_t values = 0;
  int requests = 0;
  for (std::string_view rest = lines; !rest.empty(); ++requests) {
    const MlflowRequest request = next_request(rest, "run");
    rest.remove_prefix(request.bytes);
    values += request.values;
  }
  EXPECT_EQ(values, 2400);
  EXPECT_EQ(requests, 3);
  std::istringstream all(lines);
  EXPECT_EQ(count_values(all), 2400);
}

TEST(MlflowRequest, KeepsTheOrderAndSkipsWhatCannotBeRead) {
  const std::string metrics = metrics_line(update_at(4), 1), status = status_line("FINISHED", 7);
  const std::string samples = samples_line(4, std::vector<SampleText>{{"p", "a", std::nullopt}});
  std::string lines = metrics + metrics + samples + "{damaged\n" + status + "{\"part of a line";
  const auto take = [&] {
    const MlflowRequest request = next_request(lines, "run");
    lines.erase(0, request.bytes);
    return request;
  };
  EXPECT_EQ(take().values, 4);
  const MlflowRequest artifact = take();
  EXPECT_EQ(artifact.kind, MlflowRequest::Kind::artifact);
  EXPECT_EQ(artifact.artifact, "samples/step-4.json");
  EXPECT_EQ(Json::parse(artifact.body)["data"], Json::parse(R"([[4, "p", "a", null]])"));
  EXPECT_EQ(take().kind, MlflowRequest::Kind::none);
  const MlflowRequest last = take();
  EXPECT_EQ(last.kind, MlflowRequest::Kind::status);
  EXPECT_EQ(Json::parse(last.body), Json({{"run_id", "run"}, {"status", "FINISHED"}, {"end_time", 7}}));
  EXPECT_EQ(take().bytes, 0u);
}

TEST(MlflowRequest, NumbersThatJsonDoesNotHaveAreText) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Row row{1, false, {{"a", std::nan("")}, {"b", infinity}, {"c", -infinity}, {"d", 0.1}}};
  EXPECT_EQ(Json::parse(metrics_line(row, 1))["metrics"],
            Json({{"a", "NaN"}, {"b", "Infinity"}, {"c", "-Infinity"}, {"d", 0.1}}));
}

TEST(MlflowParameters, AreNamedByTheirKeysAndLimitedInNumberAndLength) {
  const std::string lines = parameter_lines(
      R"({"lr": 5e-7, "resume": null, "datasets": ["hh", "shp"], "e": {}, "loss": {"name": "dpo", "map": {"a": 1}},
          "my key!": "\u00fc"})");
  EXPECT_EQ(Json::parse(lines)["params"], Json({{"lr", "5e-07"},
                                                {"resume", "null"},
                                                {"datasets", R"(["hh","shp"])"},
                                                {"e", "{}"},
                                                {"loss.name", "dpo"},
                                                {"loss.map", R"({"a":1})"},
                                                {"my_key_", "\u00fc"}}));
  Json config;
  for (int i = 0; i < 250; ++i) config["key" + std::to_string(i)] = i == 0 ? std::string(9000, 'x') : "y";
  const std::string many = parameter_lines(config.dump());
  EXPECT_EQ(std::ranges::count(many, '\n'), 3);
  std::istringstream all(many);
  EXPECT_EQ(count_values(all), 250);
  const Json first = Json::parse(next_request(many, "run").body)["params"];
  EXPECT_EQ(first.size(), 100u);
  EXPECT_EQ(first[0]["value"].get<std::string>().size(), 6000u);
}

TEST(Mlflow, AServerThatIsDownDoesNotStopARun) {
  const TempFolder folder;
  Trackers trackers(mlflow_in(folder), {});
  EXPECT_TRUE(trackers.add(update_at(4)));
  EXPECT_TRUE(trackers.add(evaluation_at(4)));
  EXPECT_TRUE(trackers.finish(2));
  EXPECT_EQ(queue_of(folder), (Names{"params", "4 loss/train", "4 counter", "4 loss/eval", "FAILED"}));
  const Names notes = trackers.notes();
  ASSERT_FALSE(notes.empty());
  EXPECT_NE(
      notes.back().find("5 values were not sent: 'dpo track " + folder.path().string() + "' sends them"),
      std::string::npos)
      << notes.back();
  EXPECT_FALSE(mlflow_page(folder.path()));
  try {
    send_mlflow_queue(folder.path(), std::nullopt);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("5 values are left to send"), std::string::npos) << error.what();
  }
}

TEST(Mlflow, AResumedRunQueuesEachRowOnce) {
  const TempFolder folder;
  {
    Trackers trackers(mlflow_in(folder), {});
    for (const int step : {4, 8, 12}) trackers.add(update_at(step));
  }  // killed
  const std::string tag = read_mlflow_run(folder.path())->tag;
  std::ofstream(mlflow_queue(folder.path()), std::ios::app) << "{\"step\": 16, \"met";
  Trackers trackers(mlflow_in(folder), [](std::int64_t, const std::function<void(const Row&)>& use) {
    for (const Row& row : {update_at(4), evaluation_at(4), update_at(8)}) use(row);
  });
  trackers.add(update_at(12));
  trackers.add(update_at(14));
  trackers.finish(0);
  EXPECT_EQ(queue_of(folder),
            (Names{"params", "4 loss/train", "4 counter", "8 loss/train", "8 counter", "12 loss/train",
                   "12 counter", "RUNNING", "4 loss/eval", "14 loss/train", "14 counter", "FINISHED"}));
  EXPECT_EQ(read_mlflow_run(folder.path())->tag, tag);
}

TEST(Mlflow, ARunThatBeginsAgainIsAnotherRun) {
  const TempFolder folder;
  {
    Trackers trackers(mlflow_in(folder), {});
    for (const int step : {4, 8, 12}) trackers.add(update_at(step));
  }  // killed before its first checkpoint
  MlflowRun old = *read_mlflow_run(folder.path());
  old.sent = 10;
  old.id = "abc";
  write_mlflow_run(folder.path(), old);
  Settings settings = mlflow_in(folder);
  settings.config = R"({"lr": 0.0005, "loss": {"name": "dpo"}})";
  settings.mlflow->name = "other";
  Trackers trackers(settings, {});
  trackers.add(update_at(4));
  trackers.finish(0);
  EXPECT_EQ(queue_of(folder), (Names{"params", "4 loss/train", "4 counter", "FINISHED"}));
  const std::string queue = folder.read("mlflow/queue.jsonl");
  EXPECT_EQ(Json::parse(queue.substr(0, queue.find('\n')))["params"]["lr"], "0.0005");
  const MlflowRun run = *read_mlflow_run(folder.path());
  EXPECT_NE(run.tag, old.tag);
  EXPECT_EQ(run.name, "other");
  EXPECT_EQ(run.sent, 0u);
  EXPECT_EQ(run.id, "");
}

// A checkpoint at the start of a run has no history.
TEST(Mlflow, ARunThatWasStoppedBeforeItLoggedAnythingIsTheSameRunUnlessItsConfigurationChanges) {
  const TempFolder folder;
  Settings settings = mlflow_in(folder);
  const auto restart = [&](const std::string& config) {
    settings.config = config;
    Trackers(settings, {}).finish(143);
    return read_mlflow_run(folder.path())->tag;
  };
  const std::string tag = restart(R"({"lr": 0.001, "resume": null})");
  EXPECT_EQ(restart(R"({"lr": 0.001, "resume": "auto"})"), tag);
  EXPECT_EQ(queue_of(folder), (Names{"params", "KILLED", "RUNNING", "KILLED"}));
  EXPECT_NE(restart(R"({"lr": 0.002, "resume": "auto"})"), tag);
  EXPECT_EQ(queue_of(folder), (Names{"params", "KILLED"}));
}

// 'dpo track' may still be sending the rows of the run that was killed.
TEST(Mlflow, WhoSendsTheOldRunLeavesTheNewOneAlone) {
  const TempFolder folder;
  Trackers(mlflow_in(folder), {}).add(update_at(4));
  MlflowRun old = *read_mlflow_run(folder.path());
  old.id = "abc";
  MlflowSender sender(folder.path(), old);
  Trackers(mlflow_in(folder), {}).finish(0);
  const MlflowRun fresh = *read_mlflow_run(folder.path());
  try {
    sender.send_next(1);
    FAIL();
  } catch (const MlflowUnavailable& error) {
    EXPECT_NE(std::string(error.what()).find("began again"), std::string::npos) << error.what();
  }
  // The new run also does not take over the position of the old one.
  std::atomic<bool> cancelled = false;
  MlflowSender own(folder.path(), fresh, &cancelled);
  old.sent = 30;
  write_mlflow_run(folder.path(), old);
  own.reload(1000);
  EXPECT_EQ(own.sent(), 0u);
  EXPECT_EQ(own.run().id, "");
  EXPECT_EQ(read_mlflow_run(folder.path())->tag, fresh.tag);
}

TEST(Mlflow, AnotherServerGetsTheRunFromTheBeginning) {
  const TempFolder folder;
  Trackers(mlflow_in(folder), {}).finish(0);
  MlflowRun run = *read_mlflow_run(folder.path());
  run.sent = parameter_lines(mlflow_in(folder).config).size();
  run.id = "abc";
  run.experiment_id = "7";
  write_mlflow_run(folder.path(), run);
  EXPECT_EQ(mlflow_page(folder.path()), std::string(kNothingListens) + "/#/experiments/7/runs/abc");
  Trackers(mlflow_in(folder), {}).finish(0);
  EXPECT_EQ(read_mlflow_run(folder.path())->sent, run.sent);
  Trackers(mlflow_in(folder, "http://127.0.0.1:2"), {}).finish(0);
  EXPECT_EQ(read_mlflow_run(folder.path())->sent, 0u);
  EXPECT_EQ(read_mlflow_run(folder.path())->id, "");
}

TEST(Mlflow, WhatIsNotARunIsNotSent) {
  const TempFolder folder;
  EXPECT_THROW(send_mlflow_queue(folder.path(), std::nullopt), UserError);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Mlflow, ARowWithNanIsQueuedOnce) {
  const TempFolder folder;
  Trackers(mlflow_in(folder), {}).add({4, false, {{"loss/train", std::nan("")}, {"counter", 1}}});
  const auto history = [](std::int64_t, const std::function<void(const Row&)>& use) {
    use({4, false, {{"counter", 1}}});  // metrics.jsonl has null for the other one
  };
  { const Trackers resumed(mlflow_in(folder), history); }
  EXPECT_EQ(queue_of(folder), (Names{"params", "4 loss/train", "4 counter", "RUNNING"}));
}

std::string refusal_of(const std::string& uri) {
  try {
    mlflow_settings(uri, std::nullopt, "tiny");
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(MlflowSettings, OnlyServersAreAccepted) {
  if (!http::is_available()) GTEST_SKIP() << "built without libcurl";
  ::unsetenv("MLFLOW_TRACKING_URI");
  ::unsetenv("MLFLOW_EXPERIMENT_NAME");
  EXPECT_FALSE(mlflow_settings(std::nullopt, "x", "tiny"));
  EXPECT_EQ(mlflow_settings("https://host/ml/", std::nullopt, "tiny")->uri, "https://host/ml");
  EXPECT_EQ(mlflow_settings("https://host", std::nullopt, "tiny")->experiment,
            "direct-preference-optimization");
  EXPECT_NE(refusal_of("sqlite:///a.db").find("mlflow server --backend-store-uri sqlite:///a.db"),
            std::string::npos);
  for (const char* uri :
       {"file:///runs", "./mlruns", "http://", "ftp://host", "databricks", "databricks://me"})
    EXPECT_NE(refusal_of(uri).find(fmt::format("mlflow.tracking_uri={}: ", uri)), std::string::npos) << uri;
  for (const char* uri : {"http://me:secret@host", "postgresql://me:secret@host/db"}) {
    EXPECT_NE(refusal_of(uri), "");
    EXPECT_EQ(refusal_of(uri).find("secret"), std::string::npos);
  }
}

TEST(MlflowSettings, TheEnvironmentIsUsedWhereKeysAreNull) {
  if (!http::is_available()) GTEST_SKIP() << "built without libcurl";
  ::setenv("MLFLOW_TRACKING_URI", "http://host:5000", 1);
  ::setenv("MLFLOW_EXPERIMENT_NAME", "mine", 1);
  EXPECT_EQ(mlflow_settings(std::nullopt, std::nullopt, "tiny")->uri, "http://host:5000");
  EXPECT_EQ(mlflow_settings(std::nullopt, std::nullopt, "tiny")->experiment, "mine");
  EXPECT_EQ(mlflow_settings("http://other", "x", "tiny")->uri, "http://other");
  EXPECT_EQ(mlflow_settings("http://other", "x", "tiny")->experiment, "x");
  // A variable that is meant for other programs causes only a warning.
  ::setenv("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db", 1);
  const std::string problem = mlflow_settings(std::nullopt, std::nullopt, "tiny")->problem;
  EXPECT_TRUE(problem.starts_with("MLFLOW_TRACKING_URI=sqlite:///mlflow.db: expected the address"))
      << problem;
  EXPECT_EQ(mlflow_settings("http://other", "x", "tiny")->problem, "");
  ::setenv("MLFLOW_TRACKING_URI", "", 1);
  EXPECT_FALSE(mlflow_settings(std::nullopt, std::nullopt, "tiny"));
  ::unsetenv("MLFLOW_TRACKING_URI");
  ::unsetenv("MLFLOW_EXPERIMENT_NAME");
}

}  // namespace
}  // namespace dpo::track
