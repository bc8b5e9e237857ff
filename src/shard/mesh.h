// shard: how the ranks of a run share a model: the mesh, sharded weights and sharded gradients.
#pragma once

#include <memory>
#include <vector>

#include "comm/world.h"
#include "config/mesh.h"
#include "model/tables/layout.h"

namespace dpo::shard {

// The groups of this rank; rank = (replica * shards + shard) * tensors + tensor.
struct Mesh {
  std::shared_ptr<comm::Group> all = comm::single();
  std::shared_ptr<comm::Group> tensor = comm::single();   // tensor parallelism: split every layer
  std::shared_ptr<comm::Group> shard = comm::single();    // FSDP: split each block's buffer and the batch
  std::shared_ptr<comm::Group> replica = comm::single();  // hold the same weights, split the batch
  std::shared_ptr<comm::Group> data = comm::single();     // shard and replica: split the batch
  std::shared_ptr<comm::Group> model = comm::single();    // tensor and shard: hold one whole model
  at::Device device = at::kCPU;                           // of this rank

  model::Layout layout() const { return {tensor->rank(), tensor->size(), shard->rank(), shard->size()}; }
};

// A collective call.
Mesh make_mesh(const comm::World& world, const config::MeshShape& shape, at::Device device);

// Sums or the maximum over a group; every rank passes equally many numbers.
void sum_over(comm::Group& group, std::vector<double>& numbers, at::Device device);
double max_over(comm::Group& group, double number, at::Device device);

}  // namespace dpo::shard
