#include "shard/mesh.h"

#include <ATen/ops/tensor.h>

#include "comm/counted.h"

namespace dpo::shard {

namespace {

using GroupPtr = std::shared_ptr<comm::Group>;

// Splits the world into groups of `size` ranks. A group of one needs no communicator, and one of all ranks
// has it already: each of NCCL's takes GPU memory.
GroupPtr group_of(const comm::World& world, std::int64_t size, std::int64_t color) {
  if (size == 1) return comm::single();
  if (size == world.all->size()) return world.all;
  return world.all->split(static_cast<int>(color));
}

}  // namespace

Mesh make_mesh(const comm::World& world, const config::MeshShape& shape, at::Device device) {
  const auto rank = static_cast<std::int64_t>(world.all->rank());
  const std::int64_t tensor = rank % shape.tensor;
  const std::int64_t shard = rank / shape.tensor % shape.shard;
  const std::int64_t replica = rank / (shape.tensor * shape.shard);
  Mesh mesh;
  mesh.all = world.all;
  mesh.tensor = group_of(world, shape.tensor, rank / shape.tensor);
  mesh.shard = group_of(world, shape.shard, replica * shape.tensor + tensor);
  mesh.replica = group_of(world, shape.replica, shard * shape.tensor + tensor);
  // Two dimensions of which one has a single index have the other's ranks.
  mesh.data = shape.shard == 1     ? mesh.replica
              : shape.replica == 1 ? mesh.shard
                                   : group_of(world, shape.replica * shape.shard, tensor);
  mesh.model = shape.shard == 1    ? mesh.tensor
               : shape.tensor == 1 ? mesh.shard
                                   : group_of(world, shape.shard * shape.tensor, replica);
  // A rank whose share of a batch is empty starts no operations of this group, so they must not be counted.
  if (mesh.data->size() > 1) mesh.tensor = comm::uncounted(mesh.tensor);
  mesh.device = device;
  return mesh;
}

void sum_over(comm::Group& group, std::vector<double>& numbers, at::Device device) {
  if (group.size() == 1) return;
  const at::Tensor values = at::tensor(numbers, at::kDouble).to(device);
  group.all_reduce(values).wait();
  const at::Tensor host = values.cpu();
  numbers.assign(host.const_data_ptr<double>(), host.const_data_ptr<double>() + host.numel());
}

double max_over(comm::Group& group, double number, at::Device device) {
  if (group.size() == 1) return number;
  const at::Tensor value = at::tensor({number}, at::kDouble).to(device);
  group.all_reduce(value, comm::Reduction::max).wait();
  return value.item<double>();
}

}  // namespace dpo::shard
