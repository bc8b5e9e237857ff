#include "shard/mesh.h"

#include <ATen/ops/tensor.h>

#include "comm/counted.h"

namespace dpo::shard {

Mesh make_mesh(const comm::World& world, const config::MeshShape& shape, at::Device device) {
  const auto rank = static_cast<std::int64_t>(world.all->rank());
  const std::int64_t tensor = rank % shape.tensor;
  const std::int64_t shard = rank / shape.tensor % shape.shard;
  const std::int64_t replica = rank / (shape.tensor * shape.shard);
  const auto group = [&](std::int64_t colour) { return world.all->split(static_cast<int>(colour)); };
  Mesh mesh;
  mesh.all = world.all;
  mesh.tensor = group(rank / shape.tensor);
  mesh.shard = group(replica * shape.tensor + tensor);
  mesh.replica = group(shard * shape.tensor + tensor);
  mesh.data = group(tensor);
  // A rank whose share of a batch is empty starts no operations of this group, so they must not be counted.
  if (mesh.data->size() > 1) mesh.tensor = comm::uncounted(mesh.tensor);
  mesh.model = group(replica);
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
