#pragma once

#include <filesystem>
#include <future>
#include <optional>
#include <stop_token>
#include <string>

#include "checkpoint/load.h"
#include "model/tables/layout.h"
#include "optim/optimizer.h"
#include "run/state_files.h"

namespace dpo::run {

// Which of the run's processes this is, and what it holds.
struct Part {
  model::Layout layout;
  int rank = 0, ranks = 1;
  bool writes = true;  // false where another rank holds the same
  std::string start;   // the word for this start of the run; see check_shared
};

// A checkpoint is a Hugging Face model folder with, under state/, what resuming needs: the optimizer's arrays
// by parameter, so that a run can go on with any other division of the model over ranks. It counts only with
// its marker, which holds the size and hash of every file.
inline constexpr const char* kMarker = "COMPLETE";

struct Snapshot {
  checkpoint::LoadedModel model;  // what this rank holds, as a copy on the host in the stored type
  optim::State optimizer;
  RunState progress;
  Part part;
};

// Copies what is needed, so that training can go on while it is written.
Snapshot take_snapshot(const checkpoint::LoadedModel& described, const model::Weights& stored,
                       const optim::Optimizer& optimizer, const RunState& progress, const Part& part = {});

// Writes FOLDER, complete or absent, together with the other ranks; see write_together for `stop`.
void write_checkpoint(const std::filesystem::path& folder, const Snapshot& snapshot,
                      const std::stop_token& stop = {});

bool is_complete(const std::filesystem::path& folder);

// Reads how far a checkpoint is. One that is not complete or not as its marker says is a UserError that names
// the file.
RunState read_run_state(const std::filesystem::path& folder);
void verify_checkpoint(const std::filesystem::path& folder);

// Reads what this rank holds of the optimizer's state, whatever the division was that wrote it.
void read_optimizer(const std::filesystem::path& folder, optim::Optimizer& optimizer,
                    const model::TensorTable& table, const model::Layout& layout = {});

// The number in a folder's name step-N; nothing for another name.
std::optional<std::int64_t> step_of(const std::filesystem::path& folder);

// The complete checkpoint of the same run that is one older than this one.
std::optional<std::filesystem::path> checkpoint_before(const std::filesystem::path& checkpoint);

// The newest complete checkpoint (step-N) of a run; incomplete ones are named in `ignored`.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& run,
                                                       std::vector<std::string>& ignored);

// Writes checkpoints of a run in the background, one at a time, and points LATEST at the newest. Only the
// last `keep` stay, if that is set, and the one that BEST points at. Every rank has one.
class CheckpointWriter {
 public:
  CheckpointWriter(std::filesystem::path run, std::optional<std::int64_t> keep, Part part = {})
      : run_(std::move(run)), keep_(keep), part_(std::move(part)) {}
  // A checkpoint that waits for other ranks' parts is given up: after a failure they may never come. Call
  // finish() where they will.
  ~CheckpointWriter();

  void write(Snapshot snapshot, bool is_best);
  // Points at a checkpoint that is there: the one that the run was resumed from.
  void link(std::int64_t examples, bool is_best);
  // What went wrong with the last one, on whichever rank, is thrown here, if that is known yet.
  void check();
  // The same, after waiting for it.
  void finish();

 private:
  std::filesystem::path run_;
  std::optional<std::int64_t> keep_;
  Part part_;
  std::stop_source stop_;
  std::future<void> writing_;
};

}  // namespace dpo::run
