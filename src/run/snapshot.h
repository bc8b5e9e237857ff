// Checkpoints of a run: model files (src/checkpoint) and the state for resuming, written in the background.
#pragma once

#include <filesystem>
#include <future>
#include <optional>
#include <stop_token>
#include <string>

#include "checkpoint/load.h"
#include "model/spec/layout.h"
#include "optim/optimizer.h"
#include "run/distributed_folder.h"
#include "run/state_files.h"

namespace dpo::run {

// The part of a checkpoint that a rank holds.
struct RankPart : RankId {
  model::Layout layout;
  bool writes = true;  // false if another rank holds the same part
};

// Holds the contents of one checkpoint. On disk this is a Hugging Face model folder or a PEFT adapter folder,
// plus a folder state/ for resuming. Optimizer state is stored by parameter, so that a run can be resumed on
// any other mesh. A checkpoint only counts with its marker, the file COMPLETE, which contains the size and
// hash of every file.
struct Snapshot {
  // This rank's shard of the model or of its adapter, copied to the host in the stored dtype.
  checkpoint::LoadedModel model;
  optim::State optimizer;
  model::TensorTable trained;  // the tensors that have optimizer state
  RunState run_state;
  RankPart part;
};

// Copies everything that is needed, so that training can continue while the checkpoint is written.
Snapshot take_snapshot(const checkpoint::LoadedModel& loaded, const model::Weights& stored,
                       const optim::Optimizer& optimizer, const model::TensorTable& trained,
                       const RunState& run_state, const RankPart& part = {});

// Writes FOLDER together with the other ranks. It is complete or absent; see write_on_all_ranks for `stop`.
void write_checkpoint(const std::filesystem::path& folder, const Snapshot& snapshot,
                      const std::stop_token& stop = {});

bool is_complete(const std::filesystem::path& folder);

RunState read_run_state(const std::filesystem::path& folder);
// Compares all files with the marker. Throws a UserError that names the file if one differs or the marker is
// missing.
void verify_checkpoint(const std::filesystem::path& folder);
// Compares only the model or adapter files that exist; other files may have been edited.
void verify_weights(const std::filesystem::path& folder);

// Reads this rank's shard of the optimizer state, which any mesh may have written.
void read_optimizer(const std::filesystem::path& folder, optim::Optimizer& optimizer,
                    const model::TensorTable& trained, const model::Layout& layout = {});

// Returns N of a folder named step-N, which counts examples as the original does, or nullopt for another
// name.
std::optional<std::int64_t> step_of(const std::filesystem::path& folder);

// Returns the newest complete checkpoint of the same run that is older than this one.
std::optional<std::filesystem::path> checkpoint_before(const std::filesystem::path& checkpoint);

// Throws a UserError if a checkpoint newer than all complete ones is a broken link, because resuming from an
// older one would drop the updates after it.
void require_reachable(const std::filesystem::path& run);

// Returns the newest complete checkpoint (step-N) of a run. Incomplete ones are added to `ignored`.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& run,
                                                       std::vector<std::string>& ignored);

// Writes checkpoints of a run in the background, one at a time, and points LATEST to the newest. If `keep` is
// set, only the last `keep` remain, and those that a link of the run points to, such as BEST. A checkpoint
// that is itself a link, because it was moved to another disk, is neither counted nor removed. Every rank has
// a writer.
class CheckpointWriter {
 public:
  CheckpointWriter(std::filesystem::path run, std::optional<std::int64_t> keep, RankPart part = {})
      : run_(std::move(run)), keep_(keep), part_(std::move(part)) {}
  // Cancels a checkpoint that waits for other ranks' parts, because after a failure they may never come. If
  // they will come, call finish() first.
  ~CheckpointWriter();

  void write(Snapshot snapshot, bool is_best);
  // Points LATEST (and BEST if `is_best`) to an existing checkpoint: the one that the run was resumed from.
  void link(const RunState& run_state, bool is_best);
  // Throws if the last checkpoint has failed on any rank, without waiting for it. Like finish(), returns
  // whether a checkpoint was completed since the last call.
  bool check();
  // Waits for the last checkpoint and throws if it failed.
  bool finish();

 private:
  std::filesystem::path run_;
  std::optional<std::int64_t> keep_;
  RankPart part_;
  std::stop_source stop_;
  std::future<void> writing_;
};

}  // namespace dpo::run
