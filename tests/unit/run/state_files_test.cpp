#include "run/state_files.h"

#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "run/metrics.h"
#include "run/snapshot.h"

namespace dpo::run {
namespace {

namespace fs = std::filesystem;

const std::string kSum(64, 'a');

TEST(StateFiles, OfProgressAreReadAsTheyWereWritten) {
  const RunState run_state{
      3, 24, -1.5, 48, 0.25, {"loss/eval", "2 examples"}, 8, 16, {{"model", "m"}, {"seed", "0"}}};
  const RunState again = parse_run_state(text_of(run_state), "run.json");
  EXPECT_EQ(text_of(again), text_of(run_state));
  EXPECT_EQ(again.identity, run_state.identity);
  EXPECT_FALSE(parse_run_state(text_of(RunState{}), "run.json").best);
}

TEST(StateFiles, OfAnythingElseAreRefusedByName) {
  const std::string good =
      text_of(RunState{3, 24, -1.5, 48, 0.25, {"loss/eval", "2 examples"}, 8, 16, {{"model", "m"}}});
  const auto refused = [](const std::string& text) {
    try {
      parse_run_state(text, "run.json");
    } catch (const UserError& error) {
      return std::string(error.what()).starts_with("run.json: ");
    }
    return false;
  };
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"examples\": 24", "\"examples\": \"24\""},
           {"\"examples\": 24", "\"examples\": 1e300"},
           {"\"updates\": 3", "\"updates\": -3"},
           {"\"updates\": 3", "\"updates\": 18446744073709551615"},
           {"\"rewards\": 48", "\"reward\": 48"},
           {"\"model\": \"m\"", "\"model\": 5"},
           {"\"best\": 0.25", "\"best\": \"0.25\""}}) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    EXPECT_TRUE(refused(text)) << text;
  }
  for (const char* text : {"", "{", "[]", "5", "null"}) EXPECT_TRUE(refused(text)) << text;
}

TEST(StateFiles, OfMarkersNameFilesOfTheirFolder) {
  const Marker marker{{"config.json", {5, kSum}}, {"state/run.json", {0, kSum}}};
  EXPECT_EQ(text_of(parse_marker(text_of(marker), "COMPLETE")), text_of(marker));
  for (const char* name : {"/etc/passwd", "../x", "state/../../x", "state/", ""})
    EXPECT_THROW(parse_marker(text_of(Marker{{name, {5, kSum}}}), "COMPLETE"), UserError) << name;
  EXPECT_THROW(parse_marker(text_of(Marker{{"a", {5, "abc"}}}), "COMPLETE"), UserError);
  for (const char* text : {"{}", "[]", R"({"files": []})", R"({"files": {"a": 5}})",
                           R"({"files": {"a": {}}})", R"({"files": {"a": {"size": -1, "sha256": ""}}})"})
    EXPECT_THROW(parse_marker(text, "COMPLETE"), UserError) << text;
}

TEST(StateFiles, OfADamagedCheckpointAreAUserError) {
  const fs::path folder = fs::path(testing::TempDir()) / "dpo_state_files";
  fs::create_directories(folder / "state");
  for (const std::string& text : {std::string("{}"), text_of(Marker{{"state", {4096, kSum}}})}) {
    std::ofstream(folder / "COMPLETE") << text;
    EXPECT_THROW(verify_checkpoint(folder), UserError) << text;
  }
  fs::remove_all(folder);
}

TEST(MetricLines, AreThoseUpToANumberOfExamples) {
  const std::string first = R"({"counters/examples":8,"loss":0.5})", odd = R"({"counters/examples":"8"})";
  EXPECT_EQ(lines_until(first + "\n" + R"({"counters/examples":16})" + "\n" + odd + "\nnull\n" + R"({"cut":)",
                        {.examples = 8}),
            first + "\n" + odd + "\n");
  const std::string evaluation = R"({"loss/eval":0.5,"counters/examples":8})";
  EXPECT_EQ(lines_until(first + "\n" + evaluation + "\n", {.examples = 8, .evaluated = 4}), first + "\n");
  EXPECT_EQ(lines_until(evaluation + "\n", {.examples = 8, .evaluated = 8}), evaluation + "\n");
  const auto read = parse_metrics(R"({"b": 1, "a": null, "c": "x", "d": 2.5})");
  EXPECT_EQ(read, (Metrics{{"b", 1}, {"d", 2.5}}));
}

}  // namespace
}  // namespace dpo::run
