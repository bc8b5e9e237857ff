// How a run stores its numbers. The planner computes bytes from it, and the engine makes tensors of it.
#pragma once

#include <cstdint>
#include <optional>

#include "config/mesh.h"
#include "config/run_config.h"

namespace dpo::config {

struct Storage {
  Dtype stored = Dtype::float32;          // of the weights that the optimizer updates
  Dtype computed = Dtype::float32;        // of the weights that the policy's passes read
  Dtype reference = Dtype::float32;       // of the weights that are not trained
  Dtype gradients = Dtype::float32;       // of the sums over microbatches and ranks
  Dtype reduced = Dtype::float32;         // of gradients on their way between shard ranks
  std::optional<OptimizerState> state{};  // null: in the dtype of the stored weights
  bool accumulates_unsharded = false;     // every shard rank sums all gradients until the update
  // When gathered copies are freed: those of the weights that the optimizer updates, and those of a live
  // reference or of the frozen model under an adapter.
  Reshard reshard_trained = Reshard::pass, reshard_frozen = Reshard::pass;
  // A block's gradients are freed once it is updated, during the backward pass.
  bool optimizer_in_backward = false;
  // True if these stay in host memory while the device does not need them (offload). The plan rejects a
  // sharded reference that is offloaded.
  bool optimizer_on_host = false, reference_on_host = false;

  // True if stored weights are the bfloat16 weights of the passes and a rest (ops/split_floats.h).
  bool in_two_parts() const { return stored == Dtype::float32 && computed == Dtype::bfloat16; }
};

// Returns how a run stores its numbers. The plan must have decided model.fsdp_policy_mp and fsdp_reshard.
Storage storage_of(const RunConfig& run, const MeshShape& mesh, bool on_gpu);

// Sets when gathered copies are freed for a value of fsdp_reshard. Weights that an update changes are never
// kept longer than that. Copies of a separate reference are kept for the whole run or not at all: an update
// has one pass over them, or one for each microbatch.
void set_reshard(Storage& storage, const RunConfig& run, Reshard reshard);

// Return the dtype in which the policy is computed, and that of the weights that are not trained: the
// reference, and the frozen model under an adapter.
Dtype computed_dtype(const RunConfig& run);
Dtype reference_dtype(const RunConfig& run);

// True if a single process spreads the layers over its GPUs.
bool spreads_layers(const RunConfig& run, std::int64_t ranks);

}  // namespace dpo::config
