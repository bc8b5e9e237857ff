#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/run_config.h"

namespace dpo::config {

// How the ranks of a run share its work: `tensor` ranks divide every layer, `shard` ranks parameters and
// batch, `replica` groups the batch alone.
struct MeshShape {
  std::int64_t replica = 1, shard = 1, tensor = 1;

  std::int64_t ranks() const { return replica * shard * tensor; }
  std::int64_t data_ranks() const { return replica * shard; }  // parts that a batch is divided into
  bool operator==(const MeshShape&) const = default;
};

// What the trainer and the keys mesh.* make of `ranks` processes; nothing where they contradict each other.
std::optional<MeshShape> find_mesh(const RunConfig& run, std::int64_t ranks);

// The same; a contradiction is a UserError that says what would fit.
MeshShape mesh_of(const RunConfig& run, std::int64_t ranks);

// The processes that the keys mesh.* ask for where nobody said how many there are: 1 without them.
std::int64_t ranks_asked_for(const RunConfig& run);

// The processes of a run that is not started by a launcher, on a machine with that many GPUs: one on each,
// unless the keys ask for another number.
std::int64_t ranks_to_start(const RunConfig& run, std::int64_t gpus);

// "2 replicas x 4 shards x 2 tensor"; empty for one rank.
std::string describe(const MeshShape& mesh);

}  // namespace dpo::config
