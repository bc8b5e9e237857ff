#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/open_file.h"
#include "base/run_lock.h"
#include "config/run_config.h"
#include "run/folder_claim.h"
#include "run/metrics.h"
#include "run/samples.h"
#include "run/state_files.h"
#include "track/append_file.h"
#include "track/senders.h"
#include "track/tensorboard.h"
#include "train/records.h"

namespace dpo::run {

// Returns where a run of this configuration writes: `local_run_dir`, or LOCAL_DIR/USER/EXP_NAME_TIME.
// run_stem returns the path without the time. claim_folder handles two runs that start in the same second.
std::filesystem::path new_run_folder(const config::RunConfig& config);
std::filesystem::path run_stem(const config::RunConfig& config);

// Throws a UserError if the keys name a tracker that cannot be used.
void check_trackers(const config::RunConfig& config);

// Writes the files of a run other than checkpoints: log.txt, metrics.jsonl, eval_examples.jsonl,
// eval/step-N.jsonl, samples/step-N.jsonl, report.html, and the files of TensorBoard. Lines are flushed at
// once, so readers see whole lines. A failed write, such as on a full disk, does not stop a run: the
// functions return false.
class RunFolder {
 public:
  // Starts the run. A resumed run drops the metrics after its checkpoint, since they will be measured again.
  // It also removes incomplete checkpoints that a killed process left.
  RunFolder(FolderClaim claim, const RunState& run_state);
  // Returns a folder for ranks that do not write it: all functions do nothing.
  static RunFolder written_elsewhere(std::filesystem::path path) { return RunFolder(std::move(path)); }

  // Writes everything from now on for TensorBoard too, and starts the programs that send the run to other
  // trackers, as the keys request. `config_json` is the configuration that they show. Must be called after
  // the log tells that the run begins.
  void start_trackers(const config::RunConfig& config, const std::string& config_json);
  // Waits until the trackers have everything, for a limited time. Must be called after the log tells how the
  // run has ended.
  void finish_trackers();
  std::vector<std::string> tracker_notes();  // for the user, each returned once

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
  std::string write_report();  // from the files so far; returns why it failed, or ""
  bool flush();                // must be called before a checkpoint is saved, and at the end

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)), writes_(false) {}

  std::filesystem::path path_;
  bool writes_ = true;
  std::optional<FolderClaim> claim_;
  std::int64_t examples_ = 0, evaluated_ = -1;  // of the checkpoint being resumed
  std::optional<track::AppendFile> metrics_;
  std::optional<LineFile> log_;
  std::optional<track::TensorBoard> tensorboard_;
  std::optional<track::Senders> senders_;
  std::vector<std::string> notes_;
  std::function<void(const std::filesystem::path&)> report_;
};

}  // namespace dpo::run
