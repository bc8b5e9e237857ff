// One input is a file that a run left: the marker of a checkpoint, its progress, a line of metrics or
// samples, or the reference scores of an earlier run. An accepted file is written as it was read.
#include <cmath>
#include <sstream>

#include "checkpoint/formats/safetensors.h"
#include "memory_file.h"
#include "run/metrics.h"
#include "run/samples.h"
#include "run/state_files.h"
#include "target.h"
#include "temp_folder.h"
#include "tokens.h"
#include "train/score_table.h"

namespace fuzz::run_files {
namespace {

using namespace dpo::run;
using dpo::train::ScoreTable;

bool try_progress(std::string_view input) {
  RunState run_state;
  if (!accepts([&] { run_state = parse_run_state(input, "input"); })) return false;
  if (run_state.updates < 0 || run_state.examples < 0 || run_state.rewards < 0) fail("a negative count");
  if (text_of(parse_run_state(text_of(run_state), "again")) != text_of(run_state))
    fail("read again, it differs");
  return true;
}

bool try_marker(std::string_view input) {
  Marker marker;
  if (!accepts([&] { marker = parse_marker(input, "input"); })) return false;
  const std::filesystem::path folder = "/run/step-8";
  for (const auto& [name, file] : marker)
    if (!(folder / name).lexically_normal().string().starts_with("/run/step-8/"))
      fail("a file outside of the folder", name);
  if (text_of(parse_marker(text_of(marker), "again")) != text_of(marker)) fail("read again, it differs");
  return true;
}

bool try_metrics(std::string_view input) {
  const RunState run_state{.examples = 64, .evaluated = 64};
  std::istringstream file{std::string(input)};
  const std::string kept(input.substr(0, bytes_until(file, run_state)));
  if (!kept.empty() && kept.back() != '\n') fail("a part of a line was kept", kept);
  std::istringstream again(kept);
  if (bytes_until(again, run_state) != kept.size()) fail("what was kept is not kept again", kept);
  return !kept.empty();
}

bool try_sample(std::string_view input) {
  const auto sample = parse_sample(input);
  if (!sample) return false;
  if (sample->tokens < 0) fail("a negative count");
  const std::string line = to_json_lines(std::span(&*sample, 1), {}).front();
  const auto again = parse_sample(line);
  if (!again || to_json_lines(std::span(&*again, 1), {}).front() != line)
    fail("read again, it differs", line);
  return true;
}

const std::vector<std::int64_t> kResponses{2, 2, 3};
const ScoreTable::Key kKey{{"weights", "w"}, {"precision", "Float"}};

bool try_scores(std::string_view input) {
  const MemoryFile file(input);
  ScoreTable table(kResponses);
  std::string why;
  if (!table.read(file.path(), kKey, why)) {
    if (why.empty()) fail("refused without a reason");
    return false;
  }
  for (std::uint32_t example = 0; example < kResponses.size(); ++example) table.knows(example);
  return true;
}

const std::string kSum(64, 'a');
const std::string kProgress[] = {
    text_of(RunState{}),
    text_of(RunState{3, 24, -1.5, 48, 0.25, {"loss/eval", "set"}, 8, 16, {{"model", "m"}, {"seed", "0"}}}),
};
const std::string kMarkers[] = {
    text_of(Marker{}),
    text_of(Marker{{"config.json", {5, kSum}}, {"state/run.json", {0, kSum}}}),
};
const std::string kMetrics[] = {
    to_json_line({{"counters/examples", 64}, {"loss/train", 0.5}}) + "\n",
    to_json_line({{"loss/train", 0.5}, {"counters/examples", 128}}) + "\n",
    to_json_line({{"loss/train", std::nan("")}}) + "\n",
};
const Sample kSample{"prompt", "text", 12, true};
const std::string kSamples[] = {to_json_lines(std::span(&kSample, 1), {}).front(),
                                to_json_lines(std::span(&kSample, 1), std::span(&kSample, 1)).front()};
const Tokens kTokens =
    json_tokens({"1e18", "../", "/", "..", "\"files\": ", "\"size\": ", "\"sha256\": \"\"",
                 "\"updates\": ", "\"identity\": ", "\"best\": ", "\"counters/examples\": ",
                 "\"policy_tokens\": ", "\"a\": {\"size\": 1}, "});

template <const auto& kSeeds>
std::string make(Mutator& mutator) {
  std::string text = mutator.pick(kSeeds);
  if (mutator.below(3) == 0) mutator.change_number(text);
  mutator.mutate(text, kTokens, 4);
  return text;
}

std::string make_metrics(Mutator& mutator) {
  std::string text = make<kMetrics>(mutator);
  return mutator.below(2) == 0 ? text : text + mutator.pick(kMetrics);
}

std::string make_scores(Mutator& mutator) {
  static const std::string kSeed = [] {
    const TempFolder folder;
    ScoreTable(kResponses).write(folder.path() / "scores", kKey, "about");
    return folder.read("scores");
  }();
  std::string file = kSeed;
  for (std::size_t rounds = mutator.below(3); rounds > 0; --rounds)
    if (!file.empty() && mutator.below(2) == 0)
      file[mutator.below(file.size())] = static_cast<char>(mutator.below(256));
    else
      mutator.mutate(file, kTokens);
  return file;
}

const Registered kProgressTarget({"run_progress", make<kProgress>, try_progress});
const Registered kMarkerTarget({"run_marker", make<kMarkers>, try_marker});
const Registered kMetricsTarget({"run_metrics", make_metrics, try_metrics});
const Registered kSampleTarget({"run_sample", make<kSamples>, try_sample});
const Registered kScoresTarget({"score_table", make_scores, try_scores});

}  // namespace
}  // namespace fuzz::run_files
