// The checkpoints of a run: finding them, links to them, and writing them in the background.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>

#include <fmt/format.h>

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

// Replaces a link of a run atomically, so that it always points to a complete checkpoint. A folder of that
// name is the original's.
void point_link(const fs::path& link, const fs::path& folder) {
  const fs::file_status found = fs::symlink_status(link);
  if (fs::exists(found) && !fs::is_symlink(found)) move_aside(link);
  const fs::path fresh = link.parent_path() / fmt::format(".{}.new", link.filename().string());
  fs::remove(fresh);
  fs::create_directory_symlink(folder.filename(), fresh);
  fs::rename(fresh, link);
  sync_folder(link.parent_path());
}

// The complete checkpoints of a run by step; the others are named in `incomplete`.
std::map<std::int64_t, fs::path> checkpoints_of(const fs::path& run, std::vector<std::string>& incomplete) {
  std::map<std::int64_t, fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(run)) {
    const auto step = step_of(entry.path());
    if (!step || entry.is_symlink() || !entry.is_directory()) continue;
    if (is_complete(entry.path()))
      found[*step] = entry.path();
    else
      incomplete.push_back(entry.path().string());
  }
  return found;
}

// Removes the oldest checkpoints but those that a link points to. A folder is renamed first, so that what a
// killed process leaves of it is not a checkpoint.
void keep_newest(const fs::path& run, std::int64_t keep) {
  std::vector<std::string> incomplete;
  std::map<std::int64_t, fs::path> found = checkpoints_of(run, incomplete);
  std::error_code absent;
  const fs::path best = fs::read_symlink(run / kBest, absent),
                 latest = fs::read_symlink(run / kLatest, absent);
  for (auto excess = static_cast<std::int64_t>(found.size()) - keep; excess > 0; --excess) {
    const fs::path oldest = found.begin()->second;
    found.erase(found.begin());
    if (oldest.filename() == best || oldest.filename() == latest) continue;
    const fs::path doomed = fmt::format("{}.tmp.removed", oldest.string());
    std::error_code failed;  // ignored: the new checkpoint is good, and the next one tries again
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
    // One that was damaged, or of another run.
    if (first && fs::exists(fs::symlink_status(folder))) move_aside(folder);
    write_checkpoint(folder, taken, stop);
    if (!first) return;
    point_link(run / kLatest, folder);
    if (is_best) point_link(run / kBest, folder);
    if (keep) keep_newest(run, *keep);
  });
}

void CheckpointWriter::link(std::int64_t examples, bool is_best) {
  finish();
  if (part_.rank != 0) return;
  point_link(run_ / kLatest, step_folder(run_, examples));
  if (is_best) point_link(run_ / kBest, step_folder(run_, examples));
  if (keep_) keep_newest(run_, *keep_);  // the process may have ended before it removed old ones
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
