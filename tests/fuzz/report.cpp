// One input is a file of a run folder, with its name in the first line; the other files are valid. A report
// and the views of dpo serve are made from any content, and none of it becomes a script.
#include "report/followed_run.h"
#include "report/run_report.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "serve/events.h"
#include "serve/views.h"
#include "target.h"
#include "temp_folder.h"
#include "tokens.h"

namespace fuzz::report {
namespace {

struct RunFile {
  std::string name, content;
};

const RunFile kFiles[] = {
    {"metrics.jsonl",
     "{\"loss/eval\": 0.69, \"rewards_eval/accuracies\": 0, \"rewards_eval/margins\": 0, "
     "\"counters/examples\": 0}\n"
     "{\"loss/train\": 0.5, \"grad_norm\": 2, \"examples_per_second\": 9, \"counters/examples\": 32, "
     "\"counters/updates\": 1}\n"
     "{\"loss/eval\": 0.5, \"rewards_eval/accuracies\": 0.75, \"rewards_eval/margins\": 1.5, "
     "\"counters/eval_examples\": 2, "
     "\"counters/examples\": 32}\n"},
    {"eval/step-0.jsonl", "{\"example\": 7, \"loss\": 0.69, \"logps\": [-3, -4], \"rewards\": [0, 0]}\n"},
    {"eval/step-32.jsonl",
     "{\"example\": 7, \"loss\": 0.5, \"logps\": [-3, -4], \"rewards\": [1.5, -2]}\n"
     "{\"example\": 8, \"loss\": 0.9, \"logps\": [-3], \"rewards\": [-1e-3], \"desirable\": false}\n"
     "{\"example\": 9, \"loss\": 0.9, \"logps\": [-3, -4], \"rewards\": [-1, 1]}\n"},
    {"eval_examples.jsonl",
     "{\"example\": 7, \"prompt\": \"<s><|user|>\\np</s>\\n\", \"responses\": [\"a\", \"b\"]}\n"},
    {"samples/step-32.jsonl",
     "{\"prompt\": \"<|im_start|>user\\np<|im_end|>\\n\", \"policy\": \"a<|im_end|>\\n\", \"reference\": "
     "\"b\"}\n"},
    {"plan.json",
     "{\"rules\": [{\"id\": \"x\", \"verdict\": \"warning\", \"message\": \"m\"}], \"time\": {\"updates\": "
     "3, \"step_seconds\": 1}, "
     "\"memory\": {\"total_bytes\": 5}, \"resolved\": {\"batch_size\": 32}, \"commits\": {\"org/x\": "
     "\"abc\"}}"},
    {"environment.json", "{\"dpo\": \"1\", \"threads\": 2}"},
    {"log.txt",
     "2026-11-17 04:25:00  run folder x\n2026-11-17 04:25:01  warning: w\n2026-11-17 04:25:02  done: 1 "
     "update\n"},
};
const Tokens kTokens =
    json_tokens({"1e308", "-1e308", "5e-324", "9223372036854775807", "\\u202e", "<script>", "</script>",
                 "</style>", "<!--", "&", "'", "onerror=alert(1)", "\"example\": ", "\"rewards\": [",
                 "\"counters/examples\": ", "error: ", "stopped by a signal "});

std::string make(Mutator& mutator) {
  const RunFile& file = mutator.pick(kFiles);
  std::string content = file.content;
  if (mutator.below(3) == 0) mutator.change_number(content);
  mutator.mutate(content, kTokens, 6);
  return file.name + "\n" + content;
}

std::size_t parts_of(const std::string& page) {
  std::size_t count = 0;
  for (std::size_t at = page.find("<h2"); at != std::string::npos; at = page.find("<h2", at + 1)) ++count;
  return count;
}

std::string page_of(const TempFolder& folder) { return dpo::report::run_page({folder.path(), "run"}); }

void make_views(const std::filesystem::path& folder) {
  namespace serve = dpo::serve;
  using nlohmann::json;
  const auto print = [](const json& view) {
    return view.dump(-1, ' ', false, json::error_handler_t::replace);
  };
  dpo::report::FollowedRun followed(folder);
  followed.read();
  print(serve::run_view({folder, "run"}, followed));
  for (const char* order : {"worst", "changed"})
    print(serve::examples_view(folder, {.filter = "a", .order = order}));
  print(serve::samples_view(folder, {.step = 32, .filter = "a"}));
  serve::Runs runs({folder});
  const std::string events = serve::EventStream(runs, serve::find_runs({folder})).next();
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = events.find("data: ", at)) != events.npos; ++lines) {
    const std::size_t end = events.find('\n', at += 6);
    if (!json::accept(events.substr(at, end - at))) fail("an event that is not JSON", events);
  }
  if (lines != 3) fail("not three events", events);  // runs, held-out, points
}

struct Run {
  TempFolder folder;
  std::size_t parts = 0;  // number of parts of its page

  Run() {
    std::filesystem::create_directories(folder.path() / "eval");
    std::filesystem::create_directories(folder.path() / "samples");
    for (const RunFile& file : kFiles) folder.write(file.name, file.content);
    parts = parts_of(page_of(folder));
  }
};

// Makes a page of any file. It counts as accepted if no part is missing.
bool try_report(std::string_view input) {
  static const Run run;
  const std::size_t end = std::min(input.find('\n'), input.size());
  const auto* const file = std::ranges::find(kFiles, input.substr(0, end), &RunFile::name);
  if (file == std::end(kFiles)) return false;
  run.folder.write(file->name, input.substr(std::min(end + 1, input.size())));
  const std::string page = page_of(run.folder);
  make_views(run.folder.path());
  run.folder.write(file->name, file->content);
  if (page.find("<script") != page.rfind("<script")) fail("a script of the data", page);
  if (page.find("</script") != page.rfind("</script")) fail("the end of a script in the data", page);
  return parts_of(page) >= run.parts;
}

const Registered kReport({"run_report", make, try_report});

}  // namespace
}  // namespace fuzz::report
