#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/run_config.h"

namespace dpo::config {

// How the ranks of a run share the work: `tensor` ranks split every layer, `shard` ranks split parameters and
// batch, `replica` groups split the batch only.
struct MeshShape {
  std::int64_t replica = 1, shard = 1, tensor = 1;

  std::int64_t ranks() const { return replica * shard * tensor; }
  std::int64_t data_ranks() const { return replica * shard; }  // parts that a batch is split into
  bool operator==(const MeshShape&) const = default;
};

// The mesh of `ranks` processes by the trainer and the keys mesh.*; nullopt if they contradict each other.
std::optional<MeshShape> find_mesh(const RunConfig& run, std::int64_t ranks);

// The same; a contradiction is a UserError that says what would fit.
MeshShape mesh_of(const RunConfig& run, std::int64_t ranks);

// The number of ranks that the keys mesh.* ask for; 1 without them.
std::int64_t ranks_asked_for(const RunConfig& run);

// The number of ranks to start, without a launcher, on a machine with that many GPUs: one on each, unless the
// keys ask for another number.
std::int64_t ranks_to_start(const RunConfig& run, std::int64_t gpus);

// "2 replicas x 4 shards x 2 tensor"; empty for one rank.
std::string describe(const MeshShape& mesh);

}  // namespace dpo::config
