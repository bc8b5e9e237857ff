#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/run_config.h"

namespace dpo::config {

// How the ranks of a run share the work. `tensor` ranks split every layer, `shard` ranks split parameters and
// batch, `replica` groups split only the batch.
struct MeshShape {
  std::int64_t replica = 1, shard = 1, tensor = 1;

  std::int64_t ranks() const { return replica * shard * tensor; }
  std::int64_t data_ranks() const { return replica * shard; }  // number of parts of a batch
  bool operator==(const MeshShape&) const = default;
};

// Returns the mesh of `ranks` processes according to the trainer and the keys mesh.*, or nullopt if they
// contradict each other.
std::optional<MeshShape> find_mesh(const RunConfig& run, std::int64_t ranks);

// Returns the mesh. Throws a UserError with values that would fit if the keys contradict each other.
MeshShape mesh_of(const RunConfig& run, std::int64_t ranks);

// Returns the number of ranks that the keys mesh.* request, or 1 without them.
std::int64_t ranks_asked_for(const RunConfig& run);

// Returns the number of ranks to start without a launcher on a machine with `gpus` GPUs: one on each, unless
// the keys request another number.
std::int64_t ranks_to_start(const RunConfig& run, std::int64_t gpus);

// Returns "2 replicas x 4 shards x 2 tensor", or "" for one rank.
std::string describe(const MeshShape& mesh);

}  // namespace dpo::config
