#include <filesystem>
#include <memory>
#include <new>

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/stop.h"
#include "cli/data_lengths.h"
#include "cli/engine_commands.h"
#include "cli/engine_ranks.h"
#include "cli/engine_train.h"
#include "cli/exit_status.h"
#include "cli/progress.h"
#include "cli/train_arguments.h"
#include "comm/exchange.h"
#include "config/print.h"
#include "demo/runs.h"
#include "plan/output.h"
#include "plan/surroundings.h"
#include "train/run.h"

namespace dpo::cli {
namespace {

namespace fs = std::filesystem;

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

// Going on from an older checkpoint would mix two runs in one folder, and resume=RUN would take the other
// one.
void require_newest(const fs::path& run, const fs::path& checkpoint) {
  std::vector<std::string> ignored;
  const auto newest = train::newest_checkpoint(run, ignored);
  if (!newest || *newest == checkpoint) return;
  throw UserError(fmt::format(
      "resume={}: {} is newer. To go on from the older one, move all newer checkpoints out of {} first; to "
      "leave that run as it is, give model.archive={} and no resume: a new run from those weights",
      checkpoint.string(), newest->filename().string(), run.string(), checkpoint.string()));
}

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
  if (fs::exists(asked / "COMPLETE")) {
    require_newest(asked.parent_path(), asked);
    return {asked.parent_path(), asked};
  }
  std::vector<std::string> ignored;
  const auto checkpoint = train::newest_checkpoint(asked, ignored);
  for (const std::string& folder : ignored) print_notes({folder + " is not complete and is left aside"});
  if (!checkpoint && *config.resume == "auto") return {asked, std::nullopt};
  if (!checkpoint)
    throw UserError(fmt::format(
        "resume={}: there is no complete checkpoint (step-N with a file COMPLETE) in it", asked.string()));
  return {asked, checkpoint};
}

// The same for all ranks: names of folders hold the time, and others may be writing there.
Start agree_on_start(const config::RunConfig& config, comm::Group& all) {
  const Start mine = all.rank() == 0 ? find_start(config) : Start{};
  const std::string folder = comm::broadcast_text(all, mine.folder.string(), 0);
  const std::string checkpoint = comm::broadcast_text(all, mine.checkpoint.value_or("").string(), 0);
  return {folder, checkpoint.empty() ? std::nullopt : std::optional<fs::path>(checkpoint)};
}

// Plans depend on the machine that they are made on, but the ranks of a run must do the same: the first
// rank's plan decides whether they go on, and a rank whose own machine cannot do that says so and ends all.
bool agree_on_plan(const plan::Plan& plan, comm::Group& all) {
  const std::string reference = std::to_string(static_cast<int>(plan.reference));
  const std::string first = comm::broadcast_text(all, plan.good() ? reference : "", 0);
  if (first.empty()) return false;
  for (const plan::Finding& finding : plan.findings)
    if (finding.verdict == plan::Verdict::error)
      throw UserError(
          fmt::format("on this rank's machine the plan does not hold: {}: {}", finding.id, finding.message));
  if (reference != first)
    throw UserError(
        "reference=auto means cached scores on one machine of this run and a live reference on "
        "another; say reference=cached or reference=live");
  return true;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// LibTorch's allocators have exceptions of their own; the CPU's has no class for it.
bool is_out_of_memory(const std::exception& error) {
  return dynamic_cast<const std::bad_alloc*>(&error) || dynamic_cast<const c10::OutOfMemoryError*>(&error) ||
         std::string(error.what()).find("DefaultCPUAllocator") != std::string::npos;
}

// The run itself, in a folder of its own; the exit status.
int run_in_folder(train::Prepared& prepared, train::RunFolder& folder, const train::Listener& listener) {
  try {
    if (train::run(prepared, folder, listener) == train::Outcome::finished) return 0;
    listener.say(fmt::format("stopped by a signal; resume={} goes on from here", folder.path().string()));
    return kStopped;
  } catch (const std::exception& failure) {
    folder.log(first_line(failure.what()));
    throw;
  }
}

// The plan and what it was made of, with what is known once the data is tokenized.
struct Judged {
  plan::Inputs in;
  plan::Plan plan;
};

std::string with_remedies(const plan::Finding& finding) {
  std::string text = fmt::format("{}: {}", finding.id, finding.message);
  for (const plan::Remedy& remedy : finding.remedies)
    text += fmt::format("\n  -> {}  ({})", fmt::join(remedy.overrides, " "), remedy.reason);
  return text;
}

// Rules are judged again with the true numbers: what the plan did not see is an error, or said.
Judged judge_again(const plan::Inputs& in, const plan::Plan& plan, const train::RunData& data,
                   const train::Listener& listener) {
  Judged judged{in, {}};
  judged.in.lengths = lengths_of(data.train, data.test ? &*data.test : nullptr);
  judged.in.lengths.name = fmt::format("{}", fmt::join(in.run.datasets, ", "));
  judged.in.unmeasured.clear();
  if (plan.reference != plan::Reference::none)
    judged.in.run.reference = plan::name_of(plan.reference);  // which was decided
  judged.plan = plan::make_plan(judged.in);
  for (const plan::Finding& finding : judged.plan.findings) {
    const plan::Finding* before = plan.find(finding.id);
    if (finding.verdict < plan::Verdict::warning || (before && before->verdict >= finding.verdict)) continue;
    if (finding.verdict == plan::Verdict::error)
      throw UserError("with the data as it is, the plan does not hold: " + with_remedies(finding));
    listener.say("warning: " + with_remedies(finding));
  }
  return judged;
}

int prepare_and_run(const config::Resolved& resolved, const plan::Plan& plan, const plan::Inputs& in,
                    const Start& start, const train::Listener& listener, const comm::World& world) {
  Judged judged;
  train::Prepared prepared =
      train::prepare(plan, start.checkpoint, listener, world,
                     [&](const train::RunData& data) { judged = judge_again(in, plan, data, listener); });
  if (world.all->rank() != 0) {
    auto folder = train::RunFolder::written_elsewhere(start.folder);
    return run_in_folder(prepared, folder, listener);
  }
  train::RunFolder folder(start.folder, prepared.progress.examples);
  write_file(folder.path() / "config.yaml", config::to_yaml(resolved));
  write_file(folder.path() / "plan.json", plan::to_json(judged.plan, judged.in, std::nullopt));
  listener.say(fmt::format("{} {}", start.checkpoint ? "resuming" : "run folder", folder.path().string()));
  return run_in_folder(prepared, folder, listener);
}

// Of the ranks behind the first.
const train::Listener kSilent{[](const std::string&) {},
                              [](const std::string&, std::int64_t, std::int64_t, const std::string&) {}};

// Where a run has left everything, and what to do with it.
std::string places_of(const fs::path& folder) {
  std::string text = "\nthe run is done:\n";
  const auto add = [&](const char* what, const char* name) {
    if (fs::exists(folder / name)) text += fmt::format("  {:<12} {}\n", what, (folder / name).string());
  };
  add("checkpoint", "LATEST");
  add("best", "BEST");
  add("metrics", "metrics.jsonl");
  add("log", "log.txt");
  add("samples", "samples");
  add("evaluations", "eval");
  if (!fs::exists(folder / "LATEST")) return text + "  no checkpoint was saved: debug=true\n";
  return text +
         fmt::format("try: {}\n", demo::shell_command({"dpo", "sample", (folder / "LATEST").string()}));
}

// The plan and the progress, on stderr.
int run_train(const TrainArguments& arguments) {
  ProgressLine line;
  const TrainDisplay display{[](const plan::Plan& plan, const plan::Inputs& in) {
                               fmt::print(stderr, "{}\n", plan::to_text(plan, in, /*colours=*/false));
                             },
                             {[&line](const std::string& text) {
                                line.clear();
                                fmt::print(stderr, "{}\n", text);
                              },
                              [&line](const std::string& what, std::int64_t done, std::int64_t all,
                                      const std::string& unit) { line.show(what, done, all, unit); }}};
  return on_ranks(arguments.request, [&](const config::Resolved& resolved, const comm::World& world) {
    const TrainResult result = train_as_asked(resolved, display, world);
    if (result.status != 0 || world.all->rank() != 0) return result.status;
    fmt::print(stderr, "{}", places_of(result.folder));
    if (fs::exists(result.folder / "LATEST")) fmt::print("{}\n", (result.folder / "LATEST").string());
    return 0;
  });
}

}  // namespace

TrainResult train_as_asked(const config::Resolved& resolved, const TrainDisplay& display,
                           const comm::World& world) {
  const bool first = world.all->rank() == 0;
  const train::Listener& listener = first ? display.listener : kSilent;
  if (first) print_notes(resolved.notes);
  // What is worth telling of the data is said when it is tokenized.
  const plan::Inputs in =
      plan::gather_inputs(resolved.values, machine_of(world), count_data(resolved.values).lengths);
  const plan::Plan plan = plan::make_plan(in);
  if (first) display.show_plan(plan, in);
  if (!agree_on_plan(plan, *world.all)) return {1, {}};
  const Start start = agree_on_start(plan.resolved, *world.all);
  stop_in_order();
  try {
    return {prepare_and_run(resolved, plan, in, start, listener, world), start.folder};
  } catch (const train::Stopped& stopped) {
    listener.say(fmt::format("stopped by a signal {}", stopped.what()));
    return {kStopped, {}};
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    throw train::TrainingFailure(fmt::format("out of memory: {}\nThe plan was:\n{}", first_line(error.what()),
                                             plan::memory_to_text(plan)));
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
