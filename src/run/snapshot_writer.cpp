// Finds the checkpoints of a run, links to them, and writes them in the background.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/output_files.h"
#include "base/user_path.h"
#include "base/utf8.h"
#include "run/snapshot.h"
#include "train/events.h"

namespace dpo::run {

namespace fs = std::filesystem;

std::optional<std::int64_t> step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  constexpr std::string_view kStep = "step-";
  if (!name.starts_with(kStep) || name.size() == kStep.size() || name.size() > kStep.size() + 18)
    return std::nullopt;
  const std::string digits = name.substr(kStep.size());
  if (!std::all_of(digits.begin(), digits.end(), is_ascii_digit)) return std::nullopt;
  return std::stoll(digits);
}

namespace {

fs::path step_folder(const fs::path& run, std::int64_t examples) {
  return run / fmt::format("step-{}", examples);
}

// Replaces a link of a run atomically, so that it always points to a complete checkpoint. A folder with that
// name was written by the original and is moved aside.
void point_link(const fs::path& link, const fs::path& folder) {
  const fs::file_status found = fs::symlink_status(link);
  if (fs::exists(found) && !fs::is_symlink(found)) move_aside(link);
  const fs::path fresh = link.parent_path() / fmt::format(".{}.new", link.filename().string());
  fs::remove(fresh);
  fs::create_directory_symlink(folder.filename(), fresh);
  fs::rename(fresh, link);
  sync_folder(link.parent_path());
}

// Returns false if the folder is not a checkpoint or is damaged.
bool is_of_comparison(const fs::path& folder, const Comparison& comparison) try {
  return read_run_state(folder).comparison == comparison;
} catch (const UserError&) {
  return false;
}

// Points BEST to a checkpoint. A link to the best checkpoint of another comparison is renamed, which keeps
// that checkpoint, because the new one is not known to be better.
void point_best(const fs::path& run, const fs::path& folder, const Comparison& comparison) {
  const fs::path link = run / kBest;
  if (fs::exists(link) && !fs::equivalent(link, folder) && !is_of_comparison(link, comparison))
    move_aside(link);
  point_link(link, folder);
}

// Returns the complete checkpoints of a run by step; the others are added to `incomplete`. A checkpoint that
// was moved to another disk is a link.
std::map<std::int64_t, fs::path> checkpoints_of(const fs::path& run, std::vector<std::string>& incomplete) {
  std::map<std::int64_t, fs::path> found;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(run)) {
    const auto step = step_of(entry.path());
    if (!step || !entry.is_directory(none)) continue;
    if (is_complete(entry.path()))
      found[*step] = entry.path();
    else
      incomplete.push_back(entry.path().string());
  }
  return found;
}

// Returns the checkpoints that LATEST, BEST and other links of a run point to.
std::set<fs::path> linked_checkpoints(const fs::path& run) {
  std::set<fs::path> linked;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(run))
    if (entry.is_symlink() && !step_of(entry.path()) && entry.exists(none))
      linked.insert(canonical_in_run(entry.path()));
  return linked;
}

// Removes the oldest checkpoints. A folder is renamed first, so that one that a killed process half removed
// is not taken for a checkpoint.
void keep_newest(const fs::path& run, std::int64_t keep) {
  std::vector<std::string> incomplete;
  std::map<std::int64_t, fs::path> found = checkpoints_of(run, incomplete);
  std::erase_if(found, [](const auto& checkpoint) { return fs::is_symlink(checkpoint.second); });
  const std::set<fs::path> linked = linked_checkpoints(run);
  for (auto excess = static_cast<std::int64_t>(found.size()) - keep; excess > 0; --excess) {
    const fs::path oldest = found.begin()->second;
    found.erase(found.begin());
    if (linked.contains(canonical_in_run(oldest))) continue;
    const fs::path doomed = fmt::format("{}.tmp.removed", oldest.string());
    std::error_code failed;  // ignored: the new checkpoint is good, and the next save tries again
    fs::rename(oldest, doomed, failed);
    if (!failed) fs::remove_all(doomed, failed);
  }
}

}  // namespace

std::optional<fs::path> newest_checkpoint(const fs::path& run, std::vector<std::string>& ignored) {
  const std::map<std::int64_t, fs::path> found = checkpoints_of(run, ignored);
  if (found.empty()) return std::nullopt;
  return found.rbegin()->second;
}

void require_reachable(const fs::path& run) {
  std::vector<std::string> incomplete;
  const std::map<std::int64_t, fs::path> found = checkpoints_of(run, incomplete);
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(run))
    if (const auto step = step_of(entry.path());
        step && entry.is_symlink() && !entry.exists(none) && (found.empty() || *step > found.rbegin()->first))
      throw UserError(fmt::format(
          "{} is a link to {}, which is not there: is a disk not mounted? To resume from an older "
          "checkpoint, and drop what came after it, remove the link",
          entry.path().string(), fs::read_symlink(entry.path()).string()));
}

std::optional<fs::path> checkpoint_before(const fs::path& checkpoint) {
  const auto step = step_of(checkpoint);
  if (!step || !fs::is_directory(checkpoint.parent_path())) return std::nullopt;
  std::vector<std::string> incomplete;
  const std::map<std::int64_t, fs::path> found = checkpoints_of(checkpoint.parent_path(), incomplete);
  const auto next = found.lower_bound(*step);
  if (next == found.begin()) return std::nullopt;
  return std::prev(next)->second;
}

CheckpointWriter::~CheckpointWriter() {
  stop_.request_stop();
  if (writing_.valid()) writing_.wait();
}

void CheckpointWriter::write(Snapshot snapshot, bool is_best) {
  finish();
  writing_ = std::async(std::launch::async, [run = run_, taken = std::move(snapshot), keep = keep_, is_best,
                                             first = part_.rank == 0, stop = stop_.get_token()] {
    const fs::path folder = step_folder(run, taken.run_state.examples);
    // An existing folder is a damaged checkpoint, or one of another run.
    if (first && fs::exists(fs::symlink_status(folder))) move_aside(folder);
    write_checkpoint(folder, taken, stop);
    if (!first) return;
    point_link(run / kLatest, folder);
    if (is_best) point_best(run, folder, taken.run_state.comparison);
    if (keep) keep_newest(run, *keep);
  });
}

void CheckpointWriter::link(const RunState& run_state, bool is_best) {
  finish();
  if (part_.rank != 0) return;
  const fs::path folder = step_folder(run_, run_state.examples);
  point_link(run_ / kLatest, folder);
  if (is_best) point_best(run_, folder, run_state.comparison);
  if (keep_) keep_newest(run_, *keep_);  // the previous process may have ended before removing them
}

bool CheckpointWriter::check() {
  return writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready &&
         finish();
}

bool CheckpointWriter::finish() {
  if (!writing_.valid()) return false;
  try {
    writing_.get();
    return true;
  } catch (const std::exception& error) {
    const std::string before =
        fs::exists(run_ / kLatest)
            ? fmt::format("Older checkpoints are intact; {} is the newest", (run_ / kLatest).string())
            : "There is no older checkpoint";
    throw train::TrainingFailure(
        fmt::format("a checkpoint could not be saved: {}. {}", error.what(), before));
  }
}

}  // namespace dpo::run
