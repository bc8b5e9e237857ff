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

// Returns where a run of this configuration writes: `local_run_dir`, or LOCAL_DIR/USER/EXP_NAME_TIME.
// run_stem returns the path without the time. claim_folder handles two runs that start in the same second.
std::filesystem::path new_run_folder(const config::RunConfig& config);
std::filesystem::path run_stem(const config::RunConfig& config);

// Throws a UserError if the keys or the environment name a tracker that cannot be used.
void check_trackers(const config::RunConfig& config);

// Writes the files of a run other than checkpoints: log.txt, metrics.jsonl, eval_examples.jsonl,
// eval/step-N.jsonl, samples/step-N.jsonl, report.html, and the files of trackers. Lines are flushed at once,
// so readers see whole lines. A failed write, such as on a full disk, does not stop a run: the functions
// return false.
class RunFolder {
 public:
  // Starts the run. A resumed run drops the metrics after its checkpoint, since they will be measured again.
  // It also removes incomplete checkpoints that a killed process left.
  RunFolder(FolderClaim claim, const RunState& run_state);
  // Returns a folder for ranks that do not write it: all functions do nothing.
  static RunFolder written_elsewhere(std::filesystem::path path) { return RunFolder(std::move(path)); }

  // Sends everything written from now on to TensorBoard, W&B and MLflow too, as the keys request.
  // `config_json` is the configuration that they show.
  void start_trackers(const config::RunConfig& config, std::string config_json);

  // Sets the function that writes report.html. Without it there is no report.
  void use_report(std::function<void(const std::filesystem::path& run)> write) { report_ = std::move(write); }

  const std::filesystem::path& path() const { return path_; }
  bool log(const std::string& line);
  bool add_metrics(const Metrics& metrics);
  // Calls `use` with each line of metrics.jsonl, starting at `first` examples. The lines are streamed because
  // they may not fit into memory.
  void replay(std::int64_t first, const std::function<void(const Metrics&)>& use) const;
  bool write_examples(std::span<const train::ExampleBatch> evaluation, const text::Tokenizer& tokenizer);
  bool write_records(std::int64_t examples, std::span<const train::Record> records, double beta);
  bool write_samples(std::int64_t examples, std::span<const Sample> policy,
                     std::span<const Sample> reference);
  std::string write_report();    // from the files so far; returns why it failed, or ""
  bool flush();                  // must be called before a checkpoint is saved
  bool finish(int exit_status);  // called at the end of this process
  std::vector<std::string> tracker_notes() { return trackers_.notes(); }  // for the user, each returned once

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)), writes_(false) {}

  std::filesystem::path path_;
  bool writes_ = true;
  std::optional<FolderClaim> claim_;
  std::int64_t examples_ = 0, evaluated_ = -1;  // of the checkpoint being resumed
  std::optional<track::AppendFile> metrics_;
  std::optional<LineFile> log_;
  track::Trackers trackers_;
  std::function<void(const std::filesystem::path&)> report_;
};

}  // namespace dpo::run
