#include "plan/reshard.h"

#include "plan/memory.h"

namespace dpo::plan {
namespace {

using config::Reshard;

Reshard reshard_of_model(const Workload& w) {
  return w.in.adapter ? w.storage.reshard_frozen : w.storage.reshard_trained;
}

// True if a live reference has its own weights, and their copies stay.
bool keeps_reference(const Workload& w) {
  return w.reference == ReferenceMode::live && !w.in.adapter && w.storage.reshard_frozen != Reshard::pass;
}

double bytes_of(const Workload& w, const model::TensorTable& table, std::int64_t each) {
  double parameters = 0;
  for (const model::Block& block : table.blocks) parameters += unsharded_on_rank(w, block);
  return parameters * to_double(each);
}

}  // namespace

bool keeps_model(const Workload& w) { return reshard_of_model(w) != Reshard::pass; }

GatheringPasses gathering_passes(const Workload& w) {
  GatheringPasses passes;
  if (keeps_model(w)) {
    const bool is_gathered_again = reshard_of_model(w) == Reshard::update;
    passes.forward = is_gathered_again ? 1 / to_double(w.in.run.gradient_accumulation_steps) : 0;
    passes.backward = passes.scoring = 0;
  }
  if (w.in.adapter ? keeps_model(w) : keeps_reference(w)) passes.reference = 0;
  return passes;
}

double kept_bytes(const Workload& w) {
  double bytes = 0;
  if (w.storage.reshard_trained != Reshard::pass) bytes += bytes_of(w, w.in.trained(), w.bytes.weights);
  if (w.in.adapter && keeps_model(w))
    for (const model::Block& block : w.in.table->blocks) bytes += block_bytes(w, block);
  if (keeps_reference(w)) bytes += bytes_of(w, *w.in.table, w.bytes.reference);
  return bytes;
}

// Keeping copies never takes longer, unless their memory makes more layers be recomputed.
void decide_reshard(Workload& w) {
  w.reshard = w.in.run.fsdp_reshard.value_or(Reshard::pass);
  w.recomputed_layers = recomputed_layers_of(w);
  if (w.mesh.shard == 1 || w.in.run.fsdp_reshard) return;
  for (const Reshard reshard : {Reshard::never, Reshard::update}) {
    Workload kept = w;
    config::set_reshard(kept.storage, w.in.run, reshard);
    const bool keeps_more = reshard == Reshard::update || w.in.adapter || keeps_reference(kept);
    if (!keeps_more || !memory_per_gpu(kept).fits_with_room()) continue;
    w.storage = kept.storage;
    w.reshard = reshard;
    return;
  }
}

}  // namespace dpo::plan
