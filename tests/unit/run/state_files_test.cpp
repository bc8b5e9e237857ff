#include "run/state_files.h"

#include <fstream>
#include <sstream>

#include <fmt/format.h>
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

// Returns the part of metrics.jsonl that a resumed run keeps.
std::string kept_of(const std::string& lines, const RunState& run_state) {
  std::istringstream file(lines);
  return lines.substr(0, bytes_until(file, run_state));
}

TEST(MetricLines, AreThoseUpToANumberOfExamples) {
  const std::string first = R"({"counters/examples":8,"loss":0.5})"
                            "\n",
                    odd = R"({"counters/examples":"8"})"
                          "\n";
  const std::string later = R"({"counters/examples":16})"
                            "\n";
  EXPECT_EQ(kept_of(first + later + odd + "null\n" + R"({"cut":)", {.examples = 8}), first);
  EXPECT_EQ(kept_of(first + odd + "damaged\n" + first + later, {.examples = 8}),
            first + odd + "damaged\n" + first);
  EXPECT_EQ(kept_of(first + later, {.examples = 16}), first + later);
  for (const std::string& none : {std::string(), std::string("\n"), odd, later, "\n\n" + later, later + "{"})
    EXPECT_EQ(kept_of(none, {.examples = 8}), "") << none;
  const std::string evaluation = R"({"loss/eval":0.5,"counters/examples":8})"
                                 "\n";
  EXPECT_EQ(kept_of(first + evaluation, {.examples = 8, .evaluated = 4}), first);
  EXPECT_EQ(kept_of(evaluation, {.examples = 8, .evaluated = 8}), evaluation);
}

// The file is longer than the pieces in which it is read, whose ends are anywhere in lines.
TEST(MetricLines, OfALongRunAreFoundFromTheEnd) {
  std::string kept;
  for (int i = 1; i <= 20'000; ++i) kept += fmt::format("{{\"loss\":0.5,\"counters/examples\":{}}}\n", i);
  for (const std::size_t length : {1u, 300'000u}) {
    const std::string note = "{\"note\":\"" + std::string(length, 'x') + "\"}\n";
    std::string all = kept;
    for (int i = 20'001; i <= 40'000; ++i) {
      all += fmt::format("{{\"loss\":0.5,\"counters/examples\":{}}}\n", i);
      if (i % 10'000 == 0) all += note;
    }
    EXPECT_EQ(kept_of(all, {.examples = 20'000}).size(), kept.size());
    EXPECT_EQ(kept_of(all, {.examples = 0}).size(), 0u);
    EXPECT_EQ(kept_of(all + "{", {.examples = 40'000}).size(), all.size() - note.size());
  }
}

}  // namespace
}  // namespace dpo::run
