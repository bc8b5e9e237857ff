#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/stop.h"
#include "cli/engine_commands.h"
#include "cli/engine_train.h"
#include "cli/progress.h"
#include "cli/train_arguments.h"
#include "config/print.h"
#include "plan/output.h"
#include "plan/surroundings.h"
#include "train/run.h"

namespace dpo::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kTrainingFailed = 2, kStopped = 143;

void write_file(const fs::path& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

// The newest run of an experiment that has a complete checkpoint: names end in the time of their start.
std::optional<fs::path> newest_run(const config::RunConfig& config) {
  const fs::path parent = train::new_run_folder(config).parent_path();
  std::error_code none;
  std::optional<fs::path> newest;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, none)) {
    std::vector<std::string> ignored;
    if (entry.path().filename().string().starts_with(config.exp_name + "_") && entry.is_directory() &&
        (!newest || entry.path() > *newest) && train::newest_checkpoint(entry.path(), ignored))
      newest = entry.path();
  }
  return newest;
}

struct Start {
  fs::path folder;
  std::optional<fs::path> checkpoint;
};

// Where a run writes, and where it goes on from.
Start find_start(const config::RunConfig& config) {
  if (!config.resume) return {train::new_run_folder(config), std::nullopt};
  fs::path asked = *config.resume;
  if (asked == "auto") {
    const auto found =
        config.local_run_dir ? std::optional(fs::path(*config.local_run_dir)) : newest_run(config);
    if (!found || !fs::exists(*found)) return {train::new_run_folder(config), std::nullopt};
    asked = *found;
  }
  if (!fs::is_directory(asked))
    throw UserError(fmt::format(
        "resume={}: there is no such folder; give a run's folder or one of its step-N", asked.string()));
  asked = fs::canonical(asked);
  if (fs::exists(asked / "COMPLETE")) return {asked.parent_path(), asked};
  std::vector<std::string> ignored;
  const auto checkpoint = train::newest_checkpoint(asked, ignored);
  for (const std::string& folder : ignored) print_notes({folder + " is not complete and is left aside"});
  if (!checkpoint && *config.resume == "auto") return {asked, std::nullopt};
  if (!checkpoint)
    throw UserError(fmt::format(
        "resume={}: there is no complete checkpoint (step-N with a file COMPLETE) in it", asked.string()));
  return {asked, checkpoint};
}

// What the plan may say and this version does not do yet.
void check_supported(const plan::Inputs& in) {
  if (!in.machine.device.is_cpu && in.machine.ranks() > 1)
    throw UserError(
        fmt::format("this machine has {} GPUs, and training on several is not there yet; choose one with "
                    "CUDA_VISIBLE_DEVICES=0",
                    in.machine.ranks()));
}

// The run itself, in a folder of its own; the exit status.
int run_in_folder(train::Prepared& prepared, train::RunFolder& folder, const train::Listener& listener) {
  try {
    if (train::run(prepared, folder, listener) == train::Outcome::finished) return 0;
    listener.say(fmt::format("stopped by a signal; resume={} goes on from here", folder.path().string()));
    return kStopped;
  } catch (const train::TrainingFailure& failure) {
    fmt::print(stderr, "error: {}\n", failure.what());
    folder.log(failure.what());
    return kTrainingFailed;
  }
}

// The plan and the progress, on stderr.
int run_train(const TrainArguments& arguments) {
  ProgressLine line("");
  const TrainDisplay display{[](const plan::Plan& plan, const plan::Inputs& in) {
                               fmt::print(stderr, "{}\n", plan::to_text(plan, in, /*colours=*/false));
                             },
                             {[](const std::string& text) { fmt::print(stderr, "{}\n", text); },
                              [&line](const std::string& what, std::int64_t done, std::int64_t all) {
                                line.show(what, done, all);
                              }}};
  const TrainResult result = train_as_asked(arguments.request, display);
  if (result.status == 0) fmt::print("{}\n", (result.folder / "LATEST").string());
  return result.status;
}

}  // namespace

TrainResult train_as_asked(const config::Request& request, const TrainDisplay& display) {
  const train::Listener& listener = display.listener;
  const config::Resolved resolved = config::compose(request);
  print_notes(resolved.notes);
  const plan::Inputs in = plan::gather_inputs(resolved.values, plan::find_machine({}));
  const plan::Plan plan = plan::make_plan(in);
  display.show_plan(plan, in);
  if (!plan.good()) return {1, {}};
  check_supported(in);
  const Start start = find_start(plan.resolved);
  stop_in_order();
  try {
    train::Prepared prepared = train::prepare(plan, start.checkpoint, listener, {});
    train::RunFolder folder(start.folder, prepared.progress.examples);
    write_file(folder.path() / "config.yaml", config::to_yaml(resolved));
    write_file(folder.path() / "plan.json", plan::to_json(plan, in, std::nullopt));
    listener.say(fmt::format("{} {}", start.checkpoint ? "resuming" : "run folder", folder.path().string()));
    return {run_in_folder(prepared, folder, listener), folder.path()};
  } catch (const train::Stopped& stopped) {
    listener.say(fmt::format("stopped by a signal {}", stopped.what()));
    return {kStopped, {}};
  }
}

void add_engine_train(CLI::App& engine, Action& action) {
  CLI::App& command = *engine.add_subcommand("train");
  const auto arguments = std::make_shared<TrainArguments>();
  describe_train(command, *arguments);
  command.callback([&command, &action, arguments] {
    arguments->request.overrides = overrides_of(command);
    action = [arguments] { return run_train(*arguments); };
  });
}

}  // namespace dpo::cli
