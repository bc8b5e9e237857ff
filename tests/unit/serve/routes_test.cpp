#include "serve/routes.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "run_folder.h"
#include "serve/views.h"

namespace dpo::serve {
namespace {

using nlohmann::json;

class Routes : public RunFolder {
 protected:
  Routes() {
    std::string first, last, texts;
    for (int i = 0; i < 50; ++i) {
      const std::string number = std::to_string(i);
      first += R"({"example": )" + number + R"(, "loss": 0.5, "logps": [-1, -2], "rewards": [0, 0]})" + "\n";
      last += R"({"example": )" + number + R"(, "loss": 0.5, "logps": [-1, -2], "rewards": [)" + number +
              ", 10]}\n";
      texts += R"({"example": )" + number + R"(, "prompt": "prompt )" + number +
               R"(", "responses": ["good", "Bad )" + number + R"("]})" + "\n";
    }
    write("run/eval/step-0.jsonl", first);
    write("run/eval/step-320.jsonl", last);
    write("run/eval_examples.jsonl", texts);
    write("run/samples/step-320.jsonl",
          json{{"prompt", std::string(9000, 'x')}, {"policy", "<b>é</b>"}, {"reference", "r"}}.dump() + "\n" +
              json{{"prompt", "p"}, {"policy", "\xff"}}.dump(-1, ' ', false, json::error_handler_t::replace) +
              "\n");
    write("run/metrics.jsonl", R"({"loss/eval": 0.5, "counters/examples": 320})"
                               "\n");
    write("secret.txt", "secret");
    runs_ = std::make_unique<Runs>(std::vector{folder_});
    id_ = find_runs({folder_}).at(0).id;
  }

  Answer get(const std::string& path, std::map<std::string, std::string> parameters = {}) {
    return answer_to(
        site(), {.path = path, .parameters = std::move(parameters), .credentials = {.host = "localhost"}});
  }
  json get_json(const std::string& path, std::map<std::string, std::string> parameters = {}) {
    const Answer answer = get("/api/runs/" + id_ + path, std::move(parameters));
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.type, "application/json");
    return json::parse(answer.body);
  }
  Site site() {
    return {*runs_, guard_, [](const serve::Run& run) {
              return report::RunSource{run.folder, run.name, {}, "no config"};
            }};
  }

  std::unique_ptr<Runs> runs_;
  Guard guard_{"127.0.0.1", 1, ""};
  std::string id_;
};

TEST_F(Routes, ThePageAndItsFiles) {
  for (const char* path : {"/", "/serve.js", "/curves.js", "/serve.css", "/report.css", "/uplot.js",
                           "/uplot.css", "/uplot-license.txt"}) {
    EXPECT_EQ(get(path).status, 200) << path;
    EXPECT_FALSE(get(path).body.empty()) << path;
  }
}

TEST_F(Routes, NoPathLeadsToAFile) {
  for (const std::string path : {"", "/secret.txt", "/../secret.txt", "/run/metrics.jsonl", "/api/runs/run",
                                 "/api/runs/..", "/api/runs/../../secret.txt", "/api/runs/", "/api", "//",
                                 "/index.html", "/uplot/LICENSE", "/serve.js/", "/api/events/x"})
    EXPECT_EQ(get(path).status, 404) << path;
  for (const std::string path : {"/../secret.txt", "/eval", "/examples/..", "/config.yaml", "/"})
    EXPECT_EQ(get("/api/runs/" + id_ + path).status, 404) << path;
}

TEST_F(Routes, OnlyReading) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    const Answer answer =
        answer_to(site(), {.method = method, .path = "/", .credentials = {.host = "localhost"}});
    EXPECT_EQ(answer.status, 405) << method;
  }
  EXPECT_EQ(answer_to(site(), {.path = "/", .credentials = {.host = "evil.example"}}).status, 421);
}

TEST_F(Routes, ExamplesAreOrderedFilteredAndPaged) {
  json view = get_json("/examples");
  EXPECT_EQ(view["step"], 320);
  EXPECT_EQ(view["score"], "margin");
  EXPECT_EQ(view["found"], 50);
  EXPECT_EQ(view["examples"].size(), kPageSize);
  EXPECT_EQ(view["examples"][0]["example"], 0);
  EXPECT_EQ(view["examples"][0]["now"], -10);
  EXPECT_EQ(view["examples"][0]["before"], 0);
  EXPECT_EQ(view["examples"][0]["responses"][1]["turns"][0]["text"], "Bad 0");
  EXPECT_EQ(view["previous"], 0);
  EXPECT_FALSE(view.contains("next"));
  EXPECT_EQ(get_json("/examples", {{"order", "best"}})["examples"][0]["example"], 49);
  EXPECT_EQ(get_json("/examples", {{"order", "changed"}})["examples"][0]["now"], 39);
  EXPECT_EQ(get_json("/examples", {{"from", "40"}})["examples"].size(), 10u);
  EXPECT_EQ(get_json("/examples", {{"from", "99999999999999999999"}})["from"], 0);
  view = get_json("/examples", {{"filter", "bad 4"}, {"order", "number"}});
  EXPECT_EQ(view["found"], 11);  // 4, 40 to 49
  EXPECT_EQ(view["all"], 50);
  EXPECT_EQ(view["examples"][1]["example"], 40);
  EXPECT_EQ(get_json("/examples", {{"step", "0"}})["step"], 0);
  EXPECT_EQ(get_json("/examples", {{"step", "319"}})["step"], 0);
  EXPECT_EQ(get_json("/examples", {{"step", "../../secret"}})["step"], 320);
  EXPECT_EQ(get_json("/examples", {{"only", "7"}})["examples"].size(), 1u);
}

TEST_F(Routes, SamplesAreCutUnlessOneIsAskedFor) {
  json view = get_json("/samples");
  EXPECT_EQ(view["all"], 2);
  EXPECT_EQ(view["samples"][0]["prompt"]["turns"][0]["text"].get<std::string>().size(), kShownCharacters);
  EXPECT_EQ(view["samples"][0]["prompt"]["more"], 9000 - kShownCharacters);
  EXPECT_EQ(view["samples"][0]["policy"]["turns"][0]["text"], "<b>é</b>");
  EXPECT_FALSE(view["samples"][1].contains("reference"));
  view = get_json("/samples", {{"only", "0"}});
  EXPECT_EQ(view["samples"][0]["prompt"]["more"], 0);
  EXPECT_EQ(get_json("/samples", {{"filter", "É"}})["found"], 0);
  EXPECT_EQ(get_json("/samples", {{"filter", "é"}})["found"], 1);
}

TEST_F(Routes, ConversationsAreShownAsTurns) {
  EXPECT_FALSE(get_json("")["chat"]);
  const std::string prompt = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
  write("run/eval_examples.jsonl",
        json{{"example", 0}, {"prompt", prompt}, {"responses", {"Hello", "Go<|im_end|>\n"}}}.dump() + "\n");
  write("run/samples/step-320.jsonl", json{{"prompt", prompt}, {"policy", "Yes"}}.dump() + "\n");
  const json user = {{{"role", "user"}, {"text", "Hi"}}};
  const auto said = [](const char* text) { return json{{{"role", ""}, {"text", text}}}; };
  const json example = get_json("/examples")["examples"][0], sample = get_json("/samples")["samples"][0];
  EXPECT_EQ(example["prompt"], json({{"turns", user}, {"more", 0}}));
  EXPECT_EQ(example["responses"][0]["turns"], said("Hello"));
  EXPECT_EQ(example["responses"][1]["turns"], said("Go"));
  EXPECT_EQ(sample["prompt"]["turns"], user);
  EXPECT_EQ(sample["policy"]["turns"], said("Yes"));
  EXPECT_TRUE(get_json("")["chat"]);
}

TEST_F(Routes, LongConversationsAreCut) {
  const std::string turn = "<|im_start|>user\n" + std::string(kShownCharacters, 'x') + "<|im_end|>\n";
  write("run/samples/step-320.jsonl", json{{"prompt", turn + turn}, {"policy", "Yes"}}.dump() + "\n");
  const json cut = get_json("/samples")["samples"][0]["prompt"];
  EXPECT_EQ(cut["turns"].size(), 1u);
  EXPECT_EQ(cut["more"], kShownCharacters);
  EXPECT_EQ(get_json("/samples", {{"only", "0"}})["samples"][0]["prompt"]["turns"].size(), 2u);
}

TEST_F(Routes, ARunThatHasNothingYet) {
  write("new/metrics.jsonl", "");
  runs_ = std::make_unique<Runs>(std::vector{folder_});
  id_ = find_runs({folder_ / "new"}).at(0).id;
  EXPECT_TRUE(get_json("")["learned"].is_null());
  EXPECT_TRUE(get_json("/examples")["examples"].empty());
  EXPECT_TRUE(get_json("/samples")["samples"].empty());
}

TEST_F(Routes, TheReportHasAPolicyOfItsOwn) {
  const Answer answer = get("/api/runs/" + id_ + "/report");
  EXPECT_EQ(answer.status, 200);
  ASSERT_EQ(answer.headers.size(), 1u);
  EXPECT_NE(answer.headers[0].second.find("sandbox allow-scripts"), std::string::npos);
}

TEST_F(Routes, EventsOfKnownRunsOnly) {
  const Answer answer = get("/api/events", {{"runs", "x," + id_ + ",../run,"}});
  EXPECT_TRUE(answer.is_events);
  EXPECT_EQ(answer.events_of.size(), 1u);
}

TEST(Prompts, AreChecked) {
  const Prompt prompt = prompt_of(
      R"({"run": "a", "side": "reference", "prompt": "--x", "temperature": 0, "max_new_tokens": 5, "chat": true})");
  EXPECT_EQ(prompt.side, Side::reference);
  EXPECT_EQ(prompt.text, "--x");
  EXPECT_TRUE(prompt.chat);
  for (const char* bad :
       {"", "[]", "{}", R"({"prompt": 1})", R"({"prompt": ""})", R"({"prompt": "a\u0000b"})",
        R"({"prompt": "a", "temperature": -1})", R"({"prompt": "a", "max_new_tokens": 0})",
        R"({"prompt": "a", "max_new_tokens": 1e30})", R"({"prompt": "a", "max_new_tokens": "x"})",
        R"({"prompt": "a", "chat": 1})"})
    EXPECT_THROW(prompt_of(bad), UserError) << bad;
}

TEST(Prompts, AreALineForTheModel) {
  EXPECT_EQ(line_of({.run = "a", .text = "é \"x\"\n --y"}), "{\"prompt\":\"é \\\"x\\\"\\n --y\"}\n");
}

TEST_F(Routes, ARunThatIsRemovedNamesNoFolder) {
  std::filesystem::remove_all(folder_ / "run");
  const Answer answer = get("/api/runs/" + id_ + "/report");
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.body, "the run's files cannot be read: 'dpo report RUN' says why\n");
  EXPECT_EQ(get_json("/examples")["steps"], 0);
}

}  // namespace
}  // namespace dpo::serve
