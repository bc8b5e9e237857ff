#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/open_file.h"
#include "base/run_lock.h"
#include "config/run_config.h"
#include "run/folder_claim.h"
#include "run/metrics.h"
#include "run/samples.h"
#include "run/state_files.h"
#include "track/append_file.h"
#include "track/trackers.h"
#include "train/records.h"

namespace dpo::run {

// Returns where a run of this configuration writes: `local_run_dir`, or LOCAL_DIR/USER/EXP_NAME_TIME. See
// claim_folder for two runs that start in the same second. run_stem: the path without the time.
std::filesystem::path new_run_folder(const config::RunConfig& config);
std::filesystem::path run_stem(const config::RunConfig& config);

// A UserError if the keys or the environment name a tracker that cannot be used.
void check_trackers(const config::RunConfig& config);

// What a run writes besides checkpoints: log.txt, metrics.jsonl, eval_examples.jsonl, eval/step-N.jsonl,
// samples/step-N.jsonl, report.html, and the files of trackers. Lines are flushed at once, so that readers
// see whole lines. What cannot be written, on a full disk, does not stop a run: the functions return false.
class RunFolder {
 public:
  // The run begins. A resumed run drops the metrics after its checkpoint, since they will be measured again,
  // and the incomplete checkpoints of a killed process.
  RunFolder(FolderClaim claim, const RunState& run_state);
  // For the ranks that do not write it: all functions do nothing.
  static RunFolder written_elsewhere(std::filesystem::path path) { return RunFolder(std::move(path)); }

  // From now on, what is written goes to TensorBoard, W&B and MLflow too, as the keys say. `config_json`: the
  // configuration, which they show.
  void start_trackers(const config::RunConfig& config, std::string config_json);

  // Writes report.html; without it there is none.
  void use_report(std::function<void(const std::filesystem::path& run)> write) { report_ = std::move(write); }

  const std::filesystem::path& path() const { return path_; }
  bool log(const std::string& line);
  bool add_metrics(const Metrics& metrics);
  // Calls `use` with each line of metrics.jsonl from `first` examples on; all lines may not fit into memory.
  void replay(std::int64_t first, const std::function<void(const Metrics&)>& use) const;
  bool write_examples(std::span<const train::ExampleBatch> evaluation, const text::Tokenizer& tokenizer);
  bool write_records(std::int64_t examples, std::span<const train::Record> records, double beta);
  bool write_samples(std::int64_t examples, std::span<const Sample> policy,
                     std::span<const Sample> reference);
  std::string write_report();    // of what was written so far; returns why it could not be written
  bool flush();                  // before a checkpoint is saved
  bool finish(int exit_status);  // at the end of this process
  std::vector<std::string> tracker_notes() { return trackers_.notes(); }  // for the user, each once

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)), writes_(false) {}

  std::filesystem::path path_;
  bool writes_ = true;
  std::optional<FolderClaim> claim_;
  std::int64_t examples_ = 0, evaluated_ = -1;  // of the checkpoint that the run is resumed from
  std::optional<track::AppendFile> metrics_;
  std::optional<LineFile> log_;
  track::Trackers trackers_;
  std::function<void(const std::filesystem::path&)> report_;
};

}  // namespace dpo::run
