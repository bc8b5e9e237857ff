#include "report/run_report.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "report/html.h"
#include "report/plan_table.h"

namespace dpo::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A text that would run a script if it were not escaped.
const std::string kHostile =
    "</script></style>\"'><img src=x onerror=alert(1)><script>alert(2)</script>&lt;{{}}";

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

// Creates the folder of a DPO run with `evaluations` evaluations, in which every text is `text`.
class RunPage : public testing::Test {
 protected:
  ~RunPage() override { fs::remove_all(root_); }

  fs::path make_run(const std::string& name, const std::string& text, int evaluations = 3) const {
    const fs::path run = root_ / name;
    fs::create_directories(run / "eval");
    fs::create_directories(run / "samples");
    std::ofstream metrics(run / "metrics.jsonl"), texts(run / "eval_examples.jsonl");
    for (int i = 0; i < evaluations; ++i) {
      const int examples = 32 * i;
      metrics << json{{"loss/eval", 0.6931 - 0.1 * i / evaluations},
                      {"rewards_eval/accuracies", i == 0 ? 0 : 0.75},
                      {"rewards_eval/margins", i == 0 ? 0 : 1.5},
                      {"counters/eval_examples", 64},
                      {"counters/examples", examples}}
              << "\n"
              << json{{"loss/train", 0.5},         {"grad_norm", 2},
                      {"examples_per_second", 64}, {"peak_memory_gib", 3},
                      {"counters/updates", i + 1}, {"counters/examples", examples + 32}}
              << "\n";
      if (i > 0 && i + 1 < evaluations) continue;
      std::ofstream records(run / "eval" / ("step-" + std::to_string(examples) + ".jsonl"));
      for (int example = 0; example < 64; ++example)
        records << json{{"example", example},
                        {"loss", 0.5},
                        {"logps", {-1, -2}},
                        {"rewards", {i == 0 ? 0 : example - 16, 0}}}
                << "\n";
      std::ofstream(run / "samples" / ("step-" + std::to_string(examples) + ".jsonl"))
          << json{{"prompt", text}, {"policy", text}, {"reference", text}} << "\n";
    }
    for (int example = 0; example < 64; ++example)
      texts << json{{"example", example}, {"prompt", text}, {"responses", {text, text}}} << "\n";
    std::ofstream(run / "plan.json") << json{
        {"rules",
         {{{"id", text}, {"verdict", "warning"}, {"message", text}},
          {{"id", "fine"}, {"verdict", "ok"}, {"message", "quiet"}}}},
        {"time", {{"updates", 100}, {"step_seconds", 0.25}, {"examples_per_second", 128}}},
        {"memory", {{"total_bytes", 1 << 30}}},
        {"resolved", {{"batch_size", 32}}},
        {"commits", {{text, text}}}};
    std::ofstream(run / "environment.json") << json{{text, text}, {"threads", 2}};
    std::ofstream(run / "log.txt") << "2026-11-17 04:25:00  warning: " << text
                                   << "\n2026-11-17 04:26:00  done: " << text << "\n";
    return run;
  }

  static RunSource source_of(const fs::path& run, const std::string& text) {
    CardRun facts;
    facts.base = facts.weights = facts.loss = facts.command = text;
    facts.data = {text};
    facts.settings = {{text, text}};
    return {run, text, facts};
  }

  const fs::path root_ = fs::path(testing::TempDir()) / "dpo_report_pages";
};

// Returns the page without its style and script.
std::string body_of(const std::string& page) {
  const std::size_t begin = page.find("<body>");
  return page.substr(begin, page.rfind("<script>") - begin);
}

TEST_F(RunPage, SaysWhatHappened) {
  const std::string page = run_page(source_of(make_run("run", "some text"), "some text"));
  for (const char* part :
       {"Did it learn? Yes: after 64 examples the reward accuracy on 64 held-out examples is 0.750",
        "; finished.", "<li>plan: some text: some text</li>", "<li>some text</li>",
        "<figcaption>loss</figcaption>", ">3 evaluations as a table", "Distribution of the margins",
        "it is 0 or less for 17 of 64 examples",
        "<summary>margin +0.000 → +47.000 <bdi>some text</bdi></summary>", "these are the 10 worst",
        "<summary>margin +0.000 → -16.000 <bdi>some text</bdi></summary>",
        "<h3>policy after 64 examples</h3>", "<h3>reference</h3>",
        "<td>time of an update (median)</td><td>0.25 s</td><td>0.5 s</td><td>+100 %</td>",
        "<td>peak memory of a device</td><td>1.0 GiB</td><td>3.0 GiB</td>", "<td>threads</td><td>2</td>",
        "dpo train --config RUN/config.yaml"})
    EXPECT_TRUE(contains(page, part)) << part;
  EXPECT_FALSE(contains(page, "quiet"));
}

TEST_F(RunPage, RunsNoScriptOfTheData) {
  for (const std::string& page :
       {run_page(source_of(make_run("run", kHostile), kHostile)),
        comparison_page(std::vector<RunSource>{source_of(make_run("a", kHostile), kHostile),
                                               source_of(make_run("b", kHostile), kHostile + "b")})}) {
    const std::string body = body_of(page);
    EXPECT_GT(count_of(body, escape(kHostile)), 10u);
    for (const char* part : {"<img", "<script", "</script", "</style", "onerror=alert(1)>"})
      EXPECT_FALSE(contains(body, part)) << part;
    EXPECT_EQ(count_of(page, "<script"), 1u);
    EXPECT_EQ(count_of(page, "</script"), 1u);
  }
}

// Puts every special character alone into every place, and checks that none stays unescaped.
TEST_F(RunPage, EscapesEverySpecialCharacter) {
  const auto tags = [](const std::string& page) { return count_of(page, "<") * 1000 + count_of(page, ">"); };
  const std::string plain = body_of(run_page(source_of(make_run("run", "x~y"), "x~y")));
  for (const char* const character : {"<", ">", "&", "\"", "'", "\x01", "\x1b", "\x7f"}) {
    const std::string text = std::string("x") + character + "y";
    const std::string body = body_of(run_page(source_of(make_run("run", text), text)));
    EXPECT_EQ(tags(body), tags(plain)) << character;
    EXPECT_EQ(count_of(body, escape(text)), count_of(plain, "x~y")) << character;
    EXPECT_FALSE(contains(body, text)) << character;
  }
}

TEST_F(RunPage, IsBoundedWhateverTheRun) {
  const fs::path run = make_run("long", std::string(50'000, 'w'), 2000);
  const std::string page = run_page(source_of(run, "long"));
  EXPECT_LT(page.size(), 600'000u);
  EXPECT_TRUE(contains(page, "50 of 2,000 evaluations as a table"));
  EXPECT_TRUE(contains(page, "2,000 logged updates are shown as 300 means."));
  EXPECT_TRUE(contains(page, "(48,000 characters more)"));
  EXPECT_LE(count_of(page, "<circle"), 200u * 6);
}

TEST_F(RunPage, IsMadeOfWhatThereIs) {
  const fs::path run = root_ / "empty";
  fs::create_directories(run);
  EXPECT_THROW(run_page({run, "empty"}), UserError);
  std::ofstream(run / "metrics.jsonl") << "";
  const std::string page = run_page({run, "empty", std::nullopt, "The configuration cannot be read: why"});
  for (const char* part : {"Not known: nothing was evaluated.",
                           "0 examples in 0 updates; running, or killed.", "cannot be read: why"})
    EXPECT_TRUE(contains(page, part)) << part;
  for (const char* part : {"<figure", "Samples", "Plan and reality"})
    EXPECT_FALSE(contains(page, part)) << part;
}

TEST_F(RunPage, ComparesRuns) {
  RunSource a = source_of(make_run("a", "text"), "text"), b = source_of(make_run("b", "text"), "text");
  a.name = "first", b.name = "second";
  b.facts->settings = {{"text", "other"}, {"seed", "1"}};
  b.facts->loss = "ipo";
  const std::string page = comparison_page(std::vector<RunSource>{a, b});
  for (const char* part :
       {"<h1>2 runs compared</h1>", "<td>first</td><td>text</td><td>96</td><td>64", "set not recorded",
        "whose values cannot be compared", "<td>text</td><td>text</td><td>other</td>",
        "<td>seed</td><td></td><td>1</td>", "<h3>second</h3>", "<summary>second: 2 findings</summary>",
        "data-name=\"second\""})
    EXPECT_TRUE(contains(page, part)) << part;
}

TEST(PlanTable, LeavesOutWhatIsNotKnown) {
  const fs::path file = fs::path(testing::TempDir()) / "dpo_report_plan_table.jsonl";
  std::ofstream(file) << "{\"counters/examples\": 8, \"tokens_per_second\": 50}\n";
  const MetricLog log(file);
  fs::remove(file);
  EXPECT_TRUE(plan_table(json(), log, true).rows.size() == 0);
  const Table table =
      plan_table(json{{"time", {{"tokens_per_second", 100}, {"updates", "many"}}}}, log, true);
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.rows[0][3].text, "-50 %");
}

TEST_F(RunPage, LeavesTheWholeRunOutOfThePlanUntilItHasFinished) {
  const fs::path run = make_run("run", "text");
  const auto has_totals = [&] { return contains(run_page(source_of(run, "text")), "<td>updates</td>"); };
  EXPECT_TRUE(has_totals());
  std::ofstream(run / "log.txt") << "2026-11-17 04:25:00  run folder x\n";
  EXPECT_FALSE(has_totals());
  EXPECT_TRUE(contains(run_page(source_of(run, "text")), "<td>time of an update (median)</td>"));
}

// metrics.jsonl was cut back to the checkpoint after 64 examples, but the other files were not.
TEST_F(RunPage, OfAResumedRunHasOnlyEvaluationsThatCount) {
  const fs::path run = make_run("run", "text");
  const std::string before = run_page(source_of(run, "text"));
  for (const char* folder : {"eval", "samples"})
    fs::copy(run / folder / "step-0.jsonl", run / folder / "step-96.jsonl");
  EXPECT_EQ(run_page(source_of(run, "text")), before);
  const std::vector<RunSource> twice(2, source_of(run, "text"));
  const std::string compared = comparison_page(twice);
  std::ofstream(run / "samples" / "step-96.jsonl") << json{{"prompt", "text"}, {"policy", "lost"}} << "\n";
  EXPECT_EQ(comparison_page(twice), compared);
}

// The first texts are sampled after the first update, which may have no evaluation.
TEST_F(RunPage, ShowsTheSamplesOfTheFirstUpdate) {
  const fs::path run = make_run("run", "text");
  fs::remove(run / "samples" / "step-0.jsonl");
  std::ofstream(run / "samples" / "step-8.jsonl") << json{{"prompt", "text"}, {"policy", "early"}} << "\n";
  EXPECT_TRUE(contains(run_page(source_of(run, "text")), "early"));
}

// KTO: the reward of a bad response should fall.
TEST_F(RunPage, ShowsRewardsOfLabelledResponsesAsTheyAre) {
  const fs::path run = make_run("run", "text");
  for (const int step : {0, 64}) {
    std::ofstream records(run / "eval" / ("step-" + std::to_string(step) + ".jsonl"));
    for (const bool desirable : {true, false})
      records << json{{"example", desirable ? 1 : 2},
                      {"logps", {-1}},
                      {"rewards",
                       {step == 0   ? 0
                        : desirable ? -0.5
                                    : -1.5}},
                      {"desirable", desirable}}
              << "\n";
  }
  const std::string page = run_page(source_of(run, "text"));
  for (const char* part : {"<summary>reward +0.000 → -1.500 ", "<summary>reward +0.000 → -0.500 ",
                           "share of examples by reward, sign changed if labelled bad",
                           "1 of 2 examples have a reward of 0 or less (0 or more if labelled bad)."})
    EXPECT_TRUE(contains(page, part)) << part;
}

TEST_F(RunPage, SaysHowManyFindingsItLeavesOut) {
  const fs::path run = make_run("run", "text");
  std::ofstream log(run / "log.txt", std::ios::app);
  for (int i = 0; i < 40; ++i) log << "2026-11-17 04:25:00  warning: " << i << "\n";
  log.close();
  std::ofstream(run / "metrics.jsonl", std::ios::app)
      << json{{"loss/eval", 2}, {"counters/examples", 128}} << "\n";
  const std::string page = run_page(source_of(run, "text"));
  EXPECT_TRUE(contains(page, "Not shown: 13 more findings."));
  EXPECT_TRUE(contains(page, "<li>the held-out loss was lowest after 64 examples"));
  std::ofstream(run / "metrics.jsonl") << json{{"loss/eval", 1}, {"counters/examples", 0}} << "\n"
                                       << json{{"loss/eval", 2}, {"counters/examples", 128}} << "\n";
  EXPECT_TRUE(contains(
      run_page(source_of(run, "text")),
      "<li>the held-out loss never fell below that before training: 1.0000; it is now 2.0000.</li>"));
}

TEST_F(RunPage, ComparesRunsWithoutConfiguration) {
  RunSource a = source_of(make_run("a", "text"), "text");
  const std::string page =
      comparison_page(std::vector<RunSource>{a, a, {make_run("b", "text"), "b", std::nullopt, "why"}});
  EXPECT_FALSE(contains(page, "different loss functions"));
  EXPECT_TRUE(contains(page, "No known setting differs."));
  EXPECT_TRUE(contains(page, "<p>b: why</p>"));
}

}  // namespace
}  // namespace dpo::report
