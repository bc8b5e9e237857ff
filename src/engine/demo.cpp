#include <chrono>
#include <memory>

#include <fmt/format.h>

#include "base/exit_status.h"
#include "base/output_files.h"
#include "base/quantity.h"
#include "base/shell.h"
#include "base/stop.h"
#include "base/terminal.h"
#include "base/user_path.h"
#include "checkpoint/adapter.h"
#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "demo/files.h"
#include "demo/results.h"
#include "demo/runs.h"
#include "engine/loading.h"
#include "engine/run_commands.h"
#include "engine/stopwatch.h"
#include "engine/train.h"
#include "model/generate.h"
#include "report/evaluations.h"
#include "train/events.h"

namespace dpo::engine {
namespace {

namespace fs = std::filesystem;

constexpr demo::TaskSizes kSizes = {.conversations = 6400, .preferences = 3200, .held_out = 256};

void say(const std::string& text) { Terminal::get().print(text); }

// Runs 'dpo train' with these arguments. The plan is in the run folder and is shown here only if it fails.
int train(const std::vector<std::string>& arguments) {
  RunDisplay display({.banner = false, .between_lines = std::chrono::seconds(2)});
  const config::Resolved resolved =
      config::compose({.overrides = arguments, .config_file = {}, .config_dirs = {}});
  try {
    return run_training(resolved, display).status;
  } catch (const train::TrainingFailure& failure) {
    commands::print_error(failure.what());
    return kTrainingFailed;
  }
}

std::string command_of(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {"dpo", "train"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return shell_command(command);
}

// Loads the model in a folder, or an adapter together with its model.
checkpoint::LoadedModel load(const fs::path& folder) {
  const auto whole = [](const std::string& model) {
    return checkpoint::load_model(model, at::kFloat, at::kCPU);
  };
  if (!checkpoint::is_adapter(folder)) return whole(folder.string());
  checkpoint::LoadedModel loaded = whole(checkpoint::read_adapter_config(folder).base);
  loaded.weights = model::with_adapter(loaded.weights,
                                       checkpoint::load_adapter(folder, loaded.table, at::kFloat, at::kCPU));
  return loaded;
}

// Samples one reply to each request and judges it.
std::vector<demo::JudgedReply> sample(const fs::path& folder, const std::vector<demo::Request>& requests,
                                      std::uint64_t seed) {
  constexpr std::int64_t kLongest = 32;
  const text::Tokenizer tokenizer = text::Tokenizer::load(folder);
  const checkpoint::LoadedModel loaded = load(folder);
  std::vector<std::vector<text::Token>> tokens;
  for (const demo::Request& request : requests) tokens.push_back(tokenizer.encode(request.prompt));
  std::vector<model::Prompt> prompts;
  for (const auto& prompt : tokens) prompts.push_back({prompt, prompts.size()});
  model::GenerateOptions options;
  options.max_new_tokens = kLongest;
  options.eos = {tokenizer.eos().value()};
  options.seed = seed;
  const auto replies = model::generate(model::make_model(loaded.config), loaded.weights, prompts, options);
  std::vector<demo::JudgedReply> samples;
  for (std::size_t i = 0; i < replies.size(); ++i) {
    std::string text = tokenizer.decode(replies[i].tokens, /*skip_special=*/true);
    if (replies[i].finish == model::Finish::length) text += " ...";
    const demo::Judgement judgement = demo::judge(requests[i].order, text);
    samples.push_back({std::move(text), judgement});
  }
  return samples;
}

// Holds the task, model and folders of a demonstration.
class Demonstration {
 public:
  explicit Demonstration(const commands::DemoArguments& arguments)
      : folder_(arguments.folder), seed_(arguments.seed), lora_(arguments.lora) {
    demo::claim_folder(folder_);
    const demo::Task task = demo::make_task(kSizes, seed_);
    demo::write_files(folder_, task);
    for (const demo::Preference& pair : task.held_out_preferences) results_.requests.push_back(pair.request);
    results_.stages = {demo::Stage{"init", "before SFT", {}}, demo::Stage{"sft", "after SFT", {}},
                       demo::Stage{"dpo", "after DPO", {}}};
    results_.commands = commands();
  }

  // Returns the exit status.
  int execute() {
    make_model();
    results_.stages[0].replies = sample(folder_ / "model", results_.requests, seed_);
    int status = run("SFT", "sft", demo::sft_arguments(folder_), results_.stages[1]);
    if (status == 0) status = run("DPO", "dpo", demo::dpo_arguments(folder_, lora_), results_.stages[2]);
    return status;
  }

  // Adds the held-out results of a run that succeeded and writes the report.
  const demo::Results& finish(double seconds) {
    const report::MetricLog sft(folder_ / "sft" / "metrics.jsonl"), dpo(folder_ / "dpo" / "metrics.jsonl");
    results_.heldout_accuracy = dpo.series("rewards_eval/accuracies").last().y;
    results_.heldout_pairs = report::evaluated_examples(dpo);
    results_.seconds = seconds;
    write_file(report(), demo::to_html(results_, sft, dpo));
    return results_;
  }

  fs::path report() const { return folder_ / "report.html"; }

 private:
  std::string commands() const {
    std::vector<std::string> sample = {"dpo", "sample"};
    if (lora_) sample.insert(sample.end(), {(folder_ / "sft" / kLatest).string(), "--adapter"});
    sample.insert(sample.end(), {(folder_ / "dpo" / kLatest).string(), "--prompts",
                                 (folder_ / "preferences" / "test.jsonl").string()});
    return fmt::format(
        "export OMP_NUM_THREADS=1\n{}\n{}\n{}\n{}",
        shell_command({"dpo", "init", (folder_ / "blank").string(), (folder_ / "model").string()}),
        command_of(demo::sft_arguments(folder_)), command_of(demo::dpo_arguments(folder_, lora_)),
        shell_command(sample));
  }

  void make_model() const {
    const checkpoint::LoadedModel model =
        checkpoint::new_model((folder_ / "blank").string(), at::kFloat, at::kCPU, seed_);
    checkpoint::save_model(folder_ / "model", model, kShardBytes);
    say(fmt::format("{}: {} conversations, {} preferences, {} requests held out\n{}: {}", folder_.string(),
                    kSizes.conversations, kSizes.preferences, kSizes.held_out, (folder_ / "model").string(),
                    summary_of(model)));
  }

  int run(const char* name, const char* folder, const std::vector<std::string>& arguments,
          demo::Stage& stage) {
    say(fmt::format("\n{}\n{}", name, command_of(arguments)));
    const int status = train(arguments);
    if (status == 0) stage.replies = sample(folder_ / folder / kLatest, results_.requests, seed_);
    const bool is_stopped = status == kStopped || (status == 0 && stop_requested());
    if (is_stopped) {
      const bool has_saved = status == kStopped && fs::exists(folder_ / folder / kLatest);
      const std::string resume = resume_command(folder_ / folder);
      say("'dpo demo' starts again from the beginning" +
          (has_saved ? fmt::format("; {} continues that run alone", resume) : ""));
    }
    return is_stopped ? kStopped : status;
  }

  const fs::path folder_;
  const std::uint64_t seed_;
  const bool lora_;
  demo::Results results_;
};

}  // namespace

int run_demo(const commands::DemoArguments& arguments) {
  const Stopwatch watch;
  Demonstration demonstration(arguments);
  if (const int status = demonstration.execute(); status != 0) return status;
  const demo::Results& results = demonstration.finish(watch.elapsed().seconds);
  if (arguments.json) {
    fmt::print("{}\n", demo::to_json(results));
    return 0;
  }
  fmt::print("\n{}\nreport: {}\n", demo::to_text(results), demonstration.report().string());
  return 0;
}

}  // namespace dpo::engine
