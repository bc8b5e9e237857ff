// shard shares a model among the ranks of a run, with a mesh, sharded weights and sharded gradients.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <c10/core/Event.h>

#include "comm/world.h"
#include "config/mesh.h"
#include "model/spec/layout.h"

namespace dpo::shard {

// This rank's process groups. rank = (replica * shards + shard) * tensors + tensor.
struct Mesh {
  std::shared_ptr<comm::Group> all = comm::single();
  std::shared_ptr<comm::Group> tensor = comm::single();   // tensor parallelism: splits every layer
  std::shared_ptr<comm::Group> shard = comm::single();    // FSDP: splits each block's buffer and the batch
  std::shared_ptr<comm::Group> replica = comm::single();  // same weights on every rank, splits the batch
  std::shared_ptr<comm::Group> data = comm::single();     // shard and replica: splits the batch
  std::shared_ptr<comm::Group> model = comm::single();    // tensor and shard: holds one whole model
  at::Device device = at::kCPU;                           // of this rank

  config::MeshShape shape() const { return {replica->size(), shard->size(), tensor->size()}; }
  model::Layout layout() const { return {tensor->rank(), tensor->size(), shard->rank(), shard->size()}; }
};

// Returns this rank's group of `size` ranks, `stride` apart.
using GroupMaker = std::function<std::shared_ptr<comm::Group>(std::int64_t size, std::int64_t stride)>;

// Makes a mesh of `all` ranks from such groups.
Mesh make_mesh(const std::shared_ptr<comm::Group>& all, const config::MeshShape& shape, at::Device device,
               const GroupMaker& group);

// Splits the world into the groups of a mesh. A collective call.
Mesh make_mesh(const comm::World& world, const config::MeshShape& shape, at::Device device);

// Sums over a group that are computed while the host goes on.
class PendingSums {
 public:
  // A collective call. Every rank must pass the same number of values.
  PendingSums(comm::Group& group, std::vector<double> numbers, at::Device device);
  // Waits for the sums, but not for later work of a GPU.
  std::vector<double> get();

 private:
  std::vector<double> numbers_;  // of this rank, in a group of one
  at::Tensor host_;
  comm::Work work_;                     // on a CPU
  std::shared_ptr<c10::Event> copied_;  // on a GPU
};

// Compute sums or a maximum over a group. Every rank must pass the same number of values.
void sum_over(comm::Group& group, std::vector<double>& numbers, at::Device device);
double max_over(comm::Group& group, double number, at::Device device);

}  // namespace dpo::shard
