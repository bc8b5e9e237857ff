#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/exit_status.h"
#include "base/files.h"
#include "base/output_files.h"
#include "base/shell.h"
#include "base/stop.h"
#include "base/terminal.h"
#include "base/user_path.h"
#include "checkpoint/adapter.h"
#include "comm/group.h"
#include "comm/introduction.h"
#include "comm/sockets.h"
#include "commands/data_lengths.h"
#include "commands/fetch.h"
#include "commands/modern_keys.h"
#include "commands/report.h"
#include "commands/run_facts.h"
#include "commands/run_keys.h"
#include "config/print.h"
#include "config/same_on_ranks.h"
#include "data/chat_files.h"
#include "data/source.h"
#include "engine/claim_folder.h"
#include "engine/environment.h"
#include "engine/out_of_memory.h"
#include "engine/ranks.h"
#include "engine/run_commands.h"
#include "engine/run_files.h"
#include "engine/train.h"
#include "plan/gather_inputs.h"
#include "plan/output.h"
#include "run/loop.h"
#include "run/start.h"

namespace dpo::engine {
namespace {

namespace fs = std::filesystem;
using train::Event;

// Returns the configuration without resume and overwrite, for starting a new run like this one.
std::string reusable_yaml(config::Resolved resolved) {
  resolved.values.resume.reset();
  resolved.values.overwrite = false;
  return config::to_yaml(resolved);
}

// Rank 0 decides for all ranks, because folder names contain the time and other runs may be writing there.
run::Start agree_on_start(const config::RunConfig& config, comm::Group& all) {
  run::Start start = all.rank() == 0 ? run::find_start(config) : run::Start{};
  start.folder = comm::broadcast_text(all, start.folder.string(), 0);
  const std::string checkpoint = comm::broadcast_text(all, start.checkpoint.value_or("").string(), 0);
  if (!checkpoint.empty()) start.checkpoint = checkpoint;
  return start;
}

// Throws if a key differs from rank 0's. Defaults may depend on a machine's memory and token cache, but all
// ranks must do the same.
void agree_on_keys(const config::RunConfig& config, comm::Group& all) {
  std::vector<std::string> problems = comm::disagreements(
      comm::introduce(all, {.host = comm::host_name(), .keys = config::same_on_ranks(config)}));
  if (problems.empty()) return;
  problems.emplace_back(
      "dpo chose these values on each machine, from its memory and its copy of the data: give them on the "
      "command line");
  throw UserError(std::move(problems));
}

// Throws if this rank's plan fails or differs from rank 0's decisions, which ends all ranks. Plans depend on
// the machine, but all ranks must do the same.
void agree_on_plan(const plan::Plan& plan, comm::Group& all) {
  std::vector<std::string> problems;
  for (const plan::Finding& finding : plan.findings)
    if (finding.verdict == plan::Verdict::error)
      problems.push_back(fmt::format("the plan fails: {}: {}", finding.id, finding.message));
  if (!problems.empty()) throw UserError(std::move(problems));
  const std::string decided = fmt::format(
      "{} {} {} {}", static_cast<int>(plan.reference), config::name_of(plan.resolved.model.fsdp_policy_mp),
      plan.resolved.activation_checkpointing.count, config::name_of(plan.resolved.fsdp_reshard));
  if (comm::broadcast_text(all, decided, 0) != decided)
    throw UserError(
        "reference=auto, model.fsdp_policy_mp=auto, activation_checkpointing=auto or fsdp_reshard=null "
        "resolves differently here and on rank 0; set reference=cached or reference=live, "
        "model.fsdp_policy_mp=bfloat16 or null, activation_checkpointing=true, false or a number of layers, "
        "and fsdp_reshard=pass, update or never");
}

// Makes all machines load the same files: rank 0 finds the commits of everything on the hub.
hub::Commits agree_on_commits(const config::RunConfig& config, const run::Start& start, comm::Group& all) {
  nlohmann::json found = nlohmann::json::object();
  if (all.rank() == 0) {
    const hub::Commits known = start.checkpoint ? commands::commits_of(start.folder) : hub::Commits{};
    found = commands::find_commits(config, known, commands::shown_downloads());
  }
  const auto commits = nlohmann::json::parse(comm::broadcast_text(all, found.dump(), 0)).get<hub::Commits>();
  hub::use_commits(commits);
  return commits;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

void report(const Event& event, run::RunFolder& folder, const train::Listener& listener) {
  listener.report(event);
  if (!event.line.empty()) folder.log(event.line);
}

// Waits for the trackers, which read in the log that the run has ended.
void finish_trackers(run::RunFolder& folder, const train::Listener& listener) {
  folder.finish_trackers();
  const std::vector<std::string> notes = folder.tracker_notes();
  for (const std::string& note : notes) {
    listener.say(note);
    folder.log(note);
  }
  if (!notes.empty()) folder.write_report();  // it has the warnings
}

// `end` is the last event of the run. The trackers are waited for last, because the process may be killed
// meanwhile, by a job scheduler or because another rank has failed.
void end_run(const Event& end, run::RunFolder& folder, const train::Listener& listener) {
  const bool written = folder.flush();
  if (!end.line.empty()) folder.log(end.line);
  if (const std::string problem = folder.write_report(); !problem.empty())
    listener.warn(fmt::format("no report: {}; try: {}", problem,
                              shell_command({"dpo", "report", folder.path().string()})));
  finish_trackers(folder, listener);
  if (!written)
    listener.warn(
        fmt::format("cannot write to {} (is the disk full?); some logs of the run are missing in the "
                    "trackers, and metrics.jsonl may have them",
                    folder.path().string()));
  listener.report(end);
}

Event end_event(const run::PreparedRun& prepared, const run::RunFolder& folder, int status) {
  Event end{.kind = Event::Kind::end,
            .numbers = {{"status", status},
                        {"updates", static_cast<double>(prepared.run_state.updates)},
                        {"examples", static_cast<double>(prepared.run_state.examples)}}};
  std::error_code none;
  if (const fs::path latest = folder.path() / kLatest; fs::exists(latest, none))
    end.texts.emplace_back("checkpoint", latest.string());
  return end;
}

std::string stopped_line(const run::PreparedRun& prepared, const fs::path& folder) {
  const std::string stopped = fmt::format("stopped by a signal after update {} of {}; ",
                                          prepared.run_state.updates, prepared.training.size());
  return stopped + (prepared.config.debug ? "debug=true: nothing was saved"
                                          : resume_command(folder) + " continues from here");
}

// Runs the training loop. Returns the exit status.
int run_in_folder(run::PreparedRun& prepared, run::RunFolder& folder, const train::Listener& listener) {
  try {
    const bool finished = run::run_loop(prepared, folder, listener) == run::Outcome::finished;
    const int status = finished ? 0 : kStopped;
    Event end = end_event(prepared, folder, status);
    if (!finished) end.line = stopped_line(prepared, folder.path());
    end_run(end, folder, listener);
    return status;
  } catch (const std::exception& failure) {
    folder.log("error: " + first_line(failure.what()));
    Event end = end_event(prepared, folder, kTrainingFailed);
    end.texts.emplace_back("error", message_of(failure));
    end_run(end, folder, listener);
    if (is_out_of_memory(failure)) throw;
    // A UserError is rethrown too: once the run has begun, it is a training failure.
    throw train::TrainingFailure(failure.what());
  }
}

// A plan and its inputs. It is first the plan that was shown, then one with the data's lengths once it is
// tokenized.
struct PlannedRun {
  plan::Inputs in;
  plan::Plan plan;
};

std::string with_remedies(const plan::Finding& finding) {
  std::string text = fmt::format("{}: {}", finding.id, finding.message);
  for (const plan::Remedy& remedy : finding.remedies)
    text += fmt::format("\n  -> {}  ({})", fmt::join(remedy.overrides, " "), remedy.reason);
  return text;
}

// Checks the rules again with the true numbers. Throws a new error and prints new warnings.
PlannedRun replan(const plan::Inputs& in, const plan::Plan& plan, const run::RunData& data,
                  const train::Listener& listener) {
  PlannedRun planned{in, {}};
  planned.in.lengths = commands::lengths_of(data.train, data.test ? &*data.test : nullptr, data.config);
  planned.in.lengths.name = fmt::format("{}", fmt::join(in.run.datasets, ", "));
  planned.in.unmeasured.clear();
  if (plan.reference != plan::ReferenceMode::none)  // keeps the earlier decision
    planned.in.run.reference = plan.reference == plan::ReferenceMode::live ? config::ReferenceScoring::live
                                                                           : config::ReferenceScoring::cached;
  planned.plan = plan::make_plan(planned.in);
  for (const plan::Finding& finding : planned.plan.findings) {
    const plan::Finding* before = plan.find(finding.id);
    if (finding.verdict < plan::Verdict::warning || (before && before->verdict >= finding.verdict)) continue;
    if (finding.verdict == plan::Verdict::error)
      throw UserError("the plan fails for the actual data: " + with_remedies(finding));
    listener.warn(with_remedies(finding));
  }
  return planned;
}

// Returns how many layers to recompute, now that the lengths are known. Tensor-parallel ranks must recompute
// the same ones.
config::RecomputedLayers agreed(const plan::Plan& plan, comm::Group& all) {
  const std::string own = std::to_string(plan.resolved.activation_checkpointing.count);
  return {std::stoll(comm::broadcast_text(all, own, 0))};
}

// Returns when gathered blocks are freed, now that the lengths are known. All ranks must gather together.
config::Reshard agreed_reshard(const plan::Plan& plan, comm::Group& all) {
  return *config::find_choice<config::Reshard>(
      comm::broadcast_text(all, config::name_of(plan.resolved.fsdp_reshard), 0));
}

// Makes all ranks sample the same texts, because the plans of different machines may differ.
plan::Sampled agreed_samples(const plan::Plan& plan, comm::Group& all) {
  const auto agreed = [&all](std::int64_t own) {
    return std::stoll(comm::broadcast_text(all, std::to_string(own), 0));
  };
  const plan::Sampled& own = plan.timing.sampled;
  return {agreed(own.texts), agreed(own.tokens), own.seconds};
}

void note_if_changed(const plan::Plan& plan, const config::RunConfig& run, const plan::Inputs& in,
                     const train::Listener& listener) {
  const config::RecomputedLayers& now = run.activation_checkpointing;
  if (now != plan.resolved.activation_checkpointing)
    listener.say(fmt::format("note: with the lengths of the data, {} of {} layers are recomputed", now.count,
                             in.shape.layers));
}

// Returns a listener that also adds each line to `log`. Used until log.txt exists.
train::Listener recording(const train::Listener& listener, std::string& log) {
  return {[&](const Event& event) {
            listener.report(event);
            log += "\n" + event.line;
          },
          listener.progress};
}

Event start_event(const run::PreparedRun& prepared, const plan::Inputs& in, const fs::path& folder) {
  Event start{.kind = Event::Kind::start,
              .line = fmt::format("{} {}", prepared.resumed ? "resuming" : "run folder", folder.string()),
              .numbers = {{"total_updates", static_cast<double>(prepared.training.size())},
                          {"batch_size", static_cast<double>(prepared.config.batch_size)},
                          {"parameters", static_cast<double>(in.table->count())}},
              .texts = {{"run", folder.string()},
                        {"model", prepared.config.model.name_or_path},
                        {"loss", config::name_of(prepared.config.loss.name)}}};
  if (prepared.resumed) start.numbers.emplace_back("resumed", static_cast<double>(*prepared.resumed));
  return start;
}

// Returns a digest of the evaluated texts, for comparing runs. Empty if the run evaluates nothing.
std::string held_out_digest(const run::RunData& data) {
  std::vector<std::uint32_t> indices;
  for (const train::ExampleBatch& batch : data.evaluation)
    indices.insert(indices.end(), batch.indices.begin(), batch.indices.end());
  return data.test ? data::digest_of_texts(*data.test, indices) : "";
}

// Only rank 0 has a `claim`. `log` holds the messages so far.
TrainResult prepare_and_run(const config::Resolved& resolved, PlannedRun& planned, const run::Start& start,
                            std::optional<run::FolderClaim> claim, const train::Listener& listener,
                            const comm::World& world, std::string log) {
  const train::Listener early = recording(listener, log);
  const plan::Plan plan = planned.plan;
  const plan::Inputs& in = planned.in;
  run::PreparedRun prepared = run::prepare_run(plan, start.checkpoint, early, world, [&](run::RunData& data) {
    planned = replan(in, plan, data, early);
    data.config.activation_checkpointing = agreed(planned.plan, *world.all);
    data.config.fsdp_reshard = agreed_reshard(planned.plan, *world.all);
    data.sampled = agreed_samples(planned.plan, *world.all);
    note_if_changed(plan, data.config, in, early);
  });
  if (world.all->rank() != 0) {
    auto folder = run::RunFolder::written_elsewhere(start.folder);
    return {run_in_folder(prepared, folder, listener), start.folder};
  }
  if (start.replaces) early.say(fmt::format("the old run was renamed to {}", claim->replace().string()));
  run::RunFolder folder(std::move(*claim), prepared.run_state);
  folder.log(log);
  planned.in.held_out_sha256 = held_out_digest(prepared);
  write_file(folder.path() / "config.yaml", reusable_yaml(resolved));
  write_file(folder.path() / "plan.json", plan::to_json(planned.plan, planned.in, std::nullopt));
  write_environment(folder.path(), world, listener);
  folder.use_report([followed = std::make_shared<report::FollowedRun>(folder.path())](const fs::path& run) {
    commands::write_report(run, *followed);
  });
  for (const auto& [name, commit] : in.commits) folder.log(fmt::format("{} at commit {}", name, commit));
  report(start_event(prepared, in, folder.path()), folder, listener);
  folder.start_trackers(resolved.values, commands::tracked_config(resolved, in.commits));
  return {run_in_folder(prepared, folder, listener), start.folder, !prepared.template_files.empty()};
}

// Throws if model.archive is missing, before the data is tokenized. The plan itself only warns about it,
// because it may be made before SFT.
void require_archive(const PlannedRun& planned, const run::Start& start) {
  if (start.checkpoint || planned.in.host.archive_exists != false) return;
  throw UserError(fmt::format("model.archive: there is no {}", *planned.in.run.model.archive));
}

// Downloads once for each machine. The first rank shows the progress.
void fetch_once(const comm::World& world, const hub::Listener& shown,
                const std::function<void(const hub::Listener&)>& fetch) {
  once_per_machine(world, [&](bool first) { fetch(first ? shown : hub::Listener{}); });
}

// Listener for all ranks but the first.
const train::Listener kSilent{[](const Event&) {},
                              [](const std::string&, std::int64_t, std::int64_t, const std::string&) {}};

}  // namespace

TrainResult run_training(const config::Resolved& asked, RunDisplay& display, const comm::World& world) {
  const bool first = world.all->rank() == 0;
  const train::Listener listener = first ? display.listener() : kSilent;
  const hub::Listener downloads = first ? display.downloads() : hub::Listener{};
  handle_stop_signals();
  ignore_closed_pipes();
  std::string log = fmt::format("dpo {}", DPO_VERSION);
  const train::Listener early = recording(listener, log);
  for (const std::string& note : asked.notes) early.say("note: " + note);
  if (first) run::check_trackers(asked.values);
  run::Start start = agree_on_start(asked.values, *world.all);
  for (const std::string& note : start.notes) early.say("note: " + note);
  const hub::Commits commits = agree_on_commits(asked.values, start, *world.all);
  data::require_local_files(asked.values);
  fetch_once(world, downloads, [&](const hub::Listener& shown) {
    commands::fetch_for_plan(asked.values, shown);
    commands::fetch_tokenizer(asked.values, shown);
  });
  // Notes about the rows are printed later, when they are tokenized.
  auto [resolved, counted] =
      commands::fitted(asked, [&](const std::string& note) { early.say("note: " + note); });
  PlannedRun planned{plan::gather_inputs(resolved.values, machine_of(world), counted.lengths), {}};
  planned.in.host.has_chat_template = data::has_own_template(resolved.values);
  planned.in.host.resumes = start.checkpoint.has_value();
  resolved = commands::with_keys_of_memory(std::move(resolved), planned.in);
  agree_on_keys(resolved.values, *world.all);
  for (const std::string& note : resolved.notes) early.say("note: " + note);
  require_archive(planned, start);
  planned.in.commits = commits;
  planned.plan = plan::make_plan(planned.in);
  world.all->barrier();  // keeps ranks from tokenizing while another still counts
  plan::require_full_batch(planned.plan);
  if (first) display.show_plan(planned.plan, planned.in, start);
  log += "\n" + plan::to_text(planned.plan, planned.in, /*colours=*/false);
  agree_on_plan(planned.plan, *world.all);
  if (stop_requested()) throw Stopped();
  std::optional<run::FolderClaim> claim = claim_folder(start, resolved.values, early, *world.all);
  fetch_once(world, downloads, [&](const hub::Listener& shown) {
    commands::fetch_data(asked.values, shown);
    // An adapter in model.archive or in a checkpoint needs the model's own weights too.
    const config::RunConfig& run = asked.values;
    const bool from_archive = run.model.archive && !checkpoint::is_adapter(*run.model.archive);
    const bool from_checkpoint = start.checkpoint && planned.plan.reference == plan::ReferenceMode::none &&
                                 run.adapter.name == config::Adapter::none;
    commands::fetch_weights(run, from_archive || from_checkpoint, shown);
  });
  if (first)
    for (const std::string& note : commands::unused_keys_notes(resolved)) early.say("note: " + note);
  try {
    return prepare_and_run(resolved, planned, start, std::move(claim), listener, world, log);
  } catch (const train::StoppedEarly& stopped) {
    listener.say(fmt::format("stopped by a signal {}", stopped.what()));
    return {kStopped, {}};
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    throw train::TrainingFailure(out_of_memory_text(error, planned.plan, planned.in));
  }
}

int run_train(const commands::TrainArguments& arguments) {
  RunDisplay display(
      {.quiet = arguments.quiet, .verbose = arguments.verbose, .json_log = arguments.json_log});
  return on_ranks("dpo train", arguments.request,
                  [&](const config::Resolved& resolved, const comm::World& world) {
                    const TrainResult result = run_training(resolved, display, world);
                    if (result.status != 0 || world.all->rank() != 0) return result.status;
                    if (resolved.values.adapter.merge_on_save) merge_latest(result.folder);
                    if (!arguments.quiet)
                      write_stderr(list_files(result, resolved.values.adapter.merge_on_save));
                    if (!arguments.json_log && fs::exists(result.folder / kLatest))
                      fmt::print("{}\n", (result.folder / kLatest).string());
                    return 0;
                  });
}

}  // namespace dpo::engine
