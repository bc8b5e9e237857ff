#include "config/storage.h"

#include <algorithm>

namespace dpo::config {
namespace {

// True if neither the gradient norm nor a sum over microbatches or ranks needs the gradients of all blocks.
// Gradients of an adapter are small and kept.
bool frees_gradients(const RunConfig& run, const MeshShape& mesh) {
  return !run.max_grad_norm && run.gradient_accumulation_steps == 1 && mesh.ranks() == 1 &&
         run.adapter.name == Adapter::none;
}

// True if the optimizer has enough state for offloading.
bool has_large_state(Optimizer optimizer) {
  return optimizer != Optimizer::SGD && optimizer != Optimizer::Adafactor;
}

}  // namespace

Dtype computed_dtype(const RunConfig& run) {
  return run.model.fsdp_policy_mp.value_or(run.model.policy_dtype);
}

Dtype reference_dtype(const RunConfig& run) {
  return run.model.reference_dtype.value_or(computed_dtype(run));
}

bool spreads_layers(const RunConfig& run, std::int64_t ranks) {
  return run.trainer == Trainer::Basic && ranks == 1;
}

Storage storage_of(const RunConfig& run, const MeshShape& mesh, bool on_gpu) {
  Storage storage;
  storage.stored = run.model.policy_dtype;
  storage.computed = computed_dtype(run);
  storage.reference = reference_dtype(run);
  // In 16 bits, sums over several microbatches or ranks would lose small gradients.
  const bool is_sum = run.gradient_accumulation_steps > 1 || mesh.data_ranks() > 1;
  storage.gradients = is_sum ? Dtype::float32 : storage.computed;
  storage.reduced = run.fsdp_reduce_dtype;
  storage.state = run.optimizer_state;
  storage.accumulates_unsharded = mesh.shard > 1 && run.fsdp_accumulate == Accumulation::whole;
  if (mesh.shard > 1) set_reshard(storage, run, run.fsdp_reshard.value_or(Reshard::pass));
  storage.optimizer_in_backward = frees_gradients(run, mesh);
  storage.optimizer_on_host = on_gpu && offloads_optimizer(run.offload) && has_large_state(run.optimizer);
  // With an adapter, the reference's weights are the policy's.
  storage.reference_on_host = on_gpu && offloads_reference(run.offload) && run.adapter.name == Adapter::none;
  return storage;
}

void set_reshard(Storage& storage, const RunConfig& run, Reshard reshard) {
  const bool has_separate_reference = run.adapter.name == Adapter::none;
  storage.reshard_trained = std::min(reshard, Reshard::update);
  storage.reshard_frozen = has_separate_reference && reshard == Reshard::update ? Reshard::pass : reshard;
}

}  // namespace dpo::config
