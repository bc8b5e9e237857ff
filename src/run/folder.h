#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "config/run_config.h"
#include "run/metrics.h"
#include "run/state_files.h"
#include "train/records.h"

namespace dpo::run {

// Where a run of this configuration writes: `local_run_dir`, or LOCAL_DIR/USER/EXP_NAME_TIME, with a number
// behind it where two begin in the same second. The stem is that without the time.
std::filesystem::path new_run_folder(const config::RunConfig& config);
std::filesystem::path run_stem(const config::RunConfig& config);

// Held while a process writes a run, until it ends, however it ends. A UserError where another one has it.
class RunLock {
 public:
  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_;
};

// What a run leaves behind, besides checkpoints: log.txt, metrics.jsonl, eval/step-N.jsonl,
// samples/step-N.jsonl. Lines are written whole and at once, so that a reader or a crash sees no half of one.
// What does not fit onto a full disk is missing; that is no reason to stop a run, so it is only said: false.
class RunFolder {
 public:
  // Makes the folder, which no other process may be writing. A resumed run forgets what was measured after
  // its checkpoint, which will be measured again, and the checkpoints that a killed process left half
  // written.
  // `check` is called before anything is changed, by the only process that may.
  RunFolder(std::filesystem::path path, const RunState& progress, const std::function<void()>& check = {});
  // The folder as the other ranks see it, which one of them writes: nothing is made, and nothing is written.
  static RunFolder written_elsewhere(std::filesystem::path path) { return RunFolder(std::move(path)); }

  const std::filesystem::path& path() const { return path_; }
  bool log(const std::string& line);
  bool add_metrics(const Metrics& metrics);
  std::vector<Metrics> history() const;  // what metrics.jsonl holds
  bool write_records(std::int64_t examples, std::span<const train::Record> records, double beta) const;
  bool write_samples(std::int64_t examples, const std::vector<std::string>& json_lines) const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)), silent_(true) {}

  std::filesystem::path path_;
  bool silent_ = false;
  std::optional<RunLock> lock_;
  std::ofstream metrics_, log_;
};

}  // namespace dpo::run
