// shard: how the ranks of a run share a model: their mesh, and the stores that gather what others hold.
#pragma once

#include <memory>
#include <vector>

#include "comm/world.h"
#include "config/mesh.h"
#include "model/tables/layout.h"

namespace dpo::shard {

// The ranks of a run, rank = (replica * shards + shard) * tensors + tensor, and the groups that this one is
// in.
struct Mesh {
  std::shared_ptr<comm::Group> all = comm::single();
  std::shared_ptr<comm::Group> tensor = comm::single();   // divide every layer
  std::shared_ptr<comm::Group> shard = comm::single();    // divide each block's flat buffer and the batch
  std::shared_ptr<comm::Group> replica = comm::single();  // hold the same and divide the batch
  std::shared_ptr<comm::Group> data = comm::single();     // shard and replica: divide the batch
  std::shared_ptr<comm::Group> model = comm::single();    // tensor and shard: hold one whole model
  at::Device device = at::kCPU;                           // of this rank

  model::Layout layout() const { return {tensor->rank(), tensor->size(), shard->rank(), shard->size()}; }
};

// All ranks make their meshes together.
Mesh make_mesh(const comm::World& world, const config::MeshShape& shape, at::Device device);

// Sums or maxima over a group of numbers that every rank has as many of.
void sum_over(comm::Group& group, std::vector<double>& numbers, at::Device device);
double largest_over(comm::Group& group, double number, at::Device device);

}  // namespace dpo::shard
