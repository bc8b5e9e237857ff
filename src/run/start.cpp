#include "run/start.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include "base/error.h"
#include "base/output_files.h"
#include "base/shell.h"
#include "base/user_path.h"
#include "base/utf8.h"
#include "config/resumed_run.h"
#include "run/folder.h"
#include "run/snapshot.h"

namespace dpo::run {
namespace {

namespace fs = std::filesystem;

// Returns whether a name is STEM_TIME, as new_run_folder makes it. "dpo_v2_..." is not a run of the
// experiment "dpo".
bool is_run_of(const std::string& stem, const std::string& name) {
  constexpr std::string_view kTime = "0000-00-00_00-00-00";
  if (!name.starts_with(stem + "_") || name.size() < stem.size() + 1 + kTime.size()) return false;
  const std::string_view time = std::string_view(name).substr(stem.size() + 1, kTime.size());
  const std::string_view rest = std::string_view(name).substr(stem.size() + 1 + kTime.size());
  const bool is_numbered =
      rest.size() > 1 && rest[0] == '-' &&
      rest.find_first_not_of("0123456789", 1) == rest.npos;  // one of several in one second
  const auto matches = [](char c, char pattern) { return pattern == '0' ? is_ascii_digit(c) : c == pattern; };
  return (rest.empty() || is_numbered) && std::equal(time.begin(), time.end(), kTime.begin(), matches);
}

// Returns an entry's name that shows that a folder contains a run, ours or the original's.
std::optional<std::string> trace_of_run(const fs::path& folder) {
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (name == kLatest || name == kBest || name.starts_with("step-")) return name;
    if (name == "metrics.jsonl" && entry.file_size(none) > 0) return name;
  }
  return std::nullopt;
}

// Returns the newest run of an experiment that has a complete checkpoint. Names end in the start time. Newer
// runs that have none are reported in `notes`.
std::optional<fs::path> newest_run(const config::RunConfig& config, std::vector<std::string>& notes) {
  const fs::path stem = run_stem(config);
  std::error_code none;
  std::vector<fs::path> runs;
  for (const fs::directory_entry& entry : fs::directory_iterator(stem.parent_path(), none))
    if (is_run_of(stem.filename().string(), entry.path().filename().string()) && entry.is_directory())
      runs.push_back(entry.path());
  std::ranges::sort(runs, std::greater{});
  std::vector<std::string> newer;
  for (const fs::path& run : runs) {
    require_reachable(run);
    std::vector<std::string> ignored;
    if (newest_checkpoint(run, ignored)) {
      for (const std::string& passed : newer) notes.push_back(passed + " is newer, but has no checkpoint");
      return run;
    }
    if (trace_of_run(run)) newer.push_back(run.string());  // runs without a trace ended before they began
  }
  return std::nullopt;
}

[[noreturn]] void refuse(const fs::path& folder, const std::string& trace) {
  std::vector<std::string> ignored;
  const std::string resume =
      newest_checkpoint(folder, ignored) ? resume_command(folder) + " resumes it, " : "";
  throw UserError(fmt::format(
      "{} already contains a run ({}), which was not changed: {}another local_run_dir starts a new one "
      "elsewhere, overwrite=true renames the old run and starts again",
      folder.string(), trace, resume));
}

// Returns whether the run in a folder had checkpoints, ours or the original's. A run that was killed before
// its first was complete has nothing to lose, and begins again in the same folder.
bool had_checkpoints(const fs::path& folder) {
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (name == kLatest || name == kBest || (name.starts_with("step-") && name.find(".tmp") == name.npos))
      return true;
  }
  std::ifstream log(folder / "log.txt");
  for (std::string line; std::getline(log, line);)
    if (line.find("saved step-") != std::string::npos) return true;
  return false;
}

bool is_inside(const fs::path& path, const fs::path& folder) {
  std::error_code none;
  const fs::path inner = fs::weakly_canonical(path, none), outer = fs::weakly_canonical(folder, none);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

using KeyAndPath = std::pair<std::string, std::string>;

// Returns the existing paths that a run reads, with their keys.
std::vector<KeyAndPath> inputs_of(const config::RunConfig& config) {
  std::vector<KeyAndPath> inputs = {{"model.name_or_path", config.model.name_or_path}};
  if (config.model.archive) inputs.emplace_back("model.archive", *config.model.archive);
  for (const std::string& name : config.datasets) inputs.emplace_back("datasets", name);
  std::error_code none;
  std::erase_if(inputs, [&](const KeyAndPath& input) { return !fs::exists(input.second, none); });
  return inputs;
}

// Throws if the new run's inputs are in the folder of the old run, which is about to be renamed.
void require_inputs_elsewhere(const fs::path& folder, const config::RunConfig& config) {
  for (const auto& [key, value] : inputs_of(config))
    if (is_inside(value, folder))
      throw UserError(
          fmt::format("{}={} is in {}, which would be renamed to make room for the new run: give another "
                      "local_run_dir, or move the old run yourself",
                      key, value, folder.string()));
  std::error_code none;
  const std::string whole = fs::weakly_canonical(folder, none).string();
  if (is_inside(fs::current_path(none), folder))
    throw UserError(
        fmt::format("{}: dpo was started in that folder, which would be renamed to make room for "
                    "the new run: start it in another one, with {}",
                    whole, shell_command({"local_run_dir=" + whole})));
}

// Throws if the run would write into a folder of data, because such folders are read with everything in them.
void require_inputs_outside(const config::RunConfig& config) {
  if (!config.local_run_dir) return;
  const fs::path folder = *config.local_run_dir;
  std::error_code none;
  for (const auto& [key, value] : inputs_of(config)) {
    const bool contains = is_inside(value, folder);
    const bool is_within = fs::is_directory(value, none) && is_inside(folder, value) && key == "datasets";
    if (!contains && !is_within) continue;
    const char* const relation = fs::equivalent(folder, value, none) ? "is also"
                                 : contains                          ? "contains"
                                                                     : "is in";
    throw UserError(
        fmt::format("local_run_dir={} {} {}={}, but a run needs a separate folder: give another one, such "
                    "as local_run_dir=runs/{}",
                    folder.string(), relation, key, value, config.exp_name));
  }
}

// Throws if a folder without a run has files that a run would overwrite; they are the user's.
void require_own_folder(const fs::path& folder) {
  std::error_code none;
  if (fs::exists(folder / RunLock::kName, none)) return;
  for (const char* const name : {"config.json", "config.yaml", "environment.json", "eval_examples.jsonl",
                                 "log.txt", "plan.json", "report.html"})
    if (fs::is_regular_file(folder / name, none))
      throw UserError(
          fmt::format("local_run_dir={} has a file {}, which does not belong to a run and was not changed; "
                      "give another folder",
                      folder.string(), name));
}

Start start_new(const config::RunConfig& config) {
  Start start{.folder = new_run_folder(config)};
  if (!config.local_run_dir) return start;  // claim_folder finds an unused name
  const auto trace = trace_of_run(start.folder);
  if (trace && !config.overwrite) refuse(start.folder, *trace);
  if (trace) require_inputs_elsewhere(start.folder, config);
  if (!trace) {
    require_inputs_outside(config);
    require_own_folder(start.folder);
  }
  start.replaces = trace.has_value();
  return start;
}

// Throws unless `checkpoint` is the newest. Resuming from an older one would mix two runs in one folder, and
// resume=RUN would take the newer one.
void require_newest(const fs::path& run, const fs::path& checkpoint) {
  require_reachable(run);
  std::vector<std::string> ignored;
  const auto newest = newest_checkpoint(run, ignored);
  if (!newest || *newest == checkpoint) return;
  throw UserError(
      fmt::format("resume={0}: {1} is newer, and resume={2} resumes from it. To resume from the older one, "
                  "move all newer checkpoints out of {2} first; for a new run from those weights, use "
                  "model.archive={0} without resume",
                  checkpoint.string(), newest->filename().string(), run.string()));
}

// Throws if local_run_dir is set to another folder, because a resumed run writes to its own.
void require_same_folder(const config::RunConfig& config, const fs::path& run) {
  std::error_code none;
  if (!config.local_run_dir || fs::weakly_canonical(*config.local_run_dir, none) == run) return;
  throw UserError(
      fmt::format("resume={}: that run continues in {}, but local_run_dir={} is another folder. Omit "
                  "local_run_dir; or, for a new run from those weights, use model.archive={} without resume",
                  *config.resume, run.string(), *config.local_run_dir, (run / kLatest).string()));
}

std::string hint_without_checkpoint(const fs::path& folder) {
  std::error_code none;
  if (step_of(folder))
    return fmt::format("; this checkpoint is incomplete: {} continues from the newest complete one",
                       resume_command(folder.parent_path()));
  if (!trace_of_run(folder))
    return fs::exists(folder / RunLock::kName, none) ? "" : "; it is not the folder of a run";
  return fmt::format("; to rename the old run and start again, give {} overwrite=true instead of resume",
                     shell_command({"local_run_dir=" + folder.string()}));
}

// `folder` is that of a run, or of one of its checkpoints.
Start resume_from(const fs::path& folder, const config::RunConfig& config) {
  if (is_complete(folder)) {
    if (!step_of(folder))
      throw UserError(
          fmt::format("resume={}: a checkpoint can only be resumed in the folder of its run, where it is "
                      "called step-N; for a new run from those weights, use model.archive={} without resume",
                      folder.string(), folder.string()));
    require_newest(folder.parent_path(), folder);
    return {.folder = folder.parent_path(), .checkpoint = folder};
  }
  require_reachable(folder);
  Start start{.folder = folder};
  std::vector<std::string> ignored;
  start.checkpoint = newest_checkpoint(folder, ignored);
  for (const std::string& incomplete : ignored)
    start.notes.push_back(incomplete + " is not complete and is ignored");
  if (start.checkpoint) return start;
  if (*config.resume != "auto")
    throw UserError(fmt::format("resume={}: no complete checkpoint (step-N with a file {}) in it{}",
                                folder.string(), kMarker, hint_without_checkpoint(folder)));
  start.replaces = had_checkpoints(folder);
  if (start.replaces) {
    require_inputs_elsewhere(folder, config);
  } else {
    require_inputs_outside(config);
    require_own_folder(folder);
  }
  return start;
}

// Throws if the folder is a broken link. Its target may be on a disk that is not mounted, and must not be
// created in its place.
void require_no_lost_link(const config::RunConfig& config) {
  if (!config.local_run_dir) return;
  const fs::path folder = without_slash(*config.local_run_dir);
  std::error_code none;
  if (fs::is_symlink(folder, none) && !fs::exists(folder, none))
    throw UserError(
        fmt::format("local_run_dir={} is a link to {}, which is not there: create that folder, or is a disk "
                    "not mounted?",
                    folder.string(), fs::read_symlink(folder).string()));
}

// Throws a UserError if another process has written to the run since find_start. The caller holds the run's
// lock.
void require_unchanged(const Start& start, const config::RunConfig& config) {
  std::vector<std::string> ignored;
  const bool is_new = !config.resume && trace_of_run(start.folder);
  if (!is_new && newest_checkpoint(start.folder, ignored) == start.checkpoint) return;
  throw UserError(fmt::format("{}: another process has written to this run in the meantime; try again",
                              start.folder.string()));
}

}  // namespace

Start find_start(const config::RunConfig& config) {
  if (config.resume && config.overwrite)
    throw UserError("overwrite=true starts a new run, and resume continues one: give one of them");
  require_no_lost_link(config);
  if (!config.resume) return start_new(config);
  fs::path asked = *config.resume;
  std::vector<std::string> notes;
  if (asked == "auto") {
    const auto found =
        config.local_run_dir ? std::optional(fs::path(*config.local_run_dir)) : newest_run(config, notes);
    if (!found || !fs::exists(*found)) {
      require_inputs_outside(config);
      return {.folder = new_run_folder(config)};
    }
    asked = *found;
  }
  config::require_run_folder(asked);
  Start start = resume_from(canonical_in_run(asked), config);
  require_same_folder(config, start.folder);
  start.notes.insert(start.notes.end(), notes.begin(), notes.end());
  return start;
}

FolderClaim claim_folder(const Start& start, const config::RunConfig& config) {
  if (!config.local_run_dir && !start.checkpoint) return FolderClaim::numbered(start.folder);
  FolderClaim claim(start.folder);
  if (!start.replaces) require_unchanged(start, config);
  return claim;
}

}  // namespace dpo::run
