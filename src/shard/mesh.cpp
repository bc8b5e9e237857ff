#include "shard/mesh.h"

#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "comm/counted.h"
#include "ops/upload.h"

namespace dpo::shard {

Mesh make_mesh(const std::shared_ptr<comm::Group>& all, const config::MeshShape& shape, at::Device device,
               const GroupMaker& make_group) {
  // A group of one needs no communicator, and one of all ranks has it already: each of NCCL's takes GPU
  // memory.
  const auto group = [&](std::int64_t size, std::int64_t stride) {
    if (size == 1) return comm::single();
    return size == all->size() ? all : make_group(size, stride);
  };
  Mesh mesh;
  mesh.all = all;
  mesh.tensor = group(shape.tensor, 1);
  mesh.shard = group(shape.shard, shape.tensor);
  mesh.replica = group(shape.replica, shape.shard * shape.tensor);
  // Two dimensions of which one has a single index have the other's ranks.
  mesh.data = shape.shard == 1     ? mesh.replica
              : shape.replica == 1 ? mesh.shard
                                   : group(shape.data_ranks(), shape.tensor);
  mesh.model = shape.shard == 1    ? mesh.tensor
               : shape.tensor == 1 ? mesh.shard
                                   : group(shape.shard * shape.tensor, 1);
  // A rank whose share of a batch is empty starts no operations of this group, so they must not be counted.
  if (mesh.data->size() > 1) mesh.tensor = comm::uncounted(mesh.tensor);
  mesh.device = device;
  return mesh;
}

Mesh make_mesh(const comm::World& world, const config::MeshShape& shape, at::Device device) {
  const auto rank = static_cast<std::int64_t>(world.all->rank());
  return make_mesh(world.all, shape, device, [&](std::int64_t size, std::int64_t stride) {
    return world.all->split(static_cast<int>(rank / (size * stride) * stride + rank % stride));
  });
}

PendingSums::PendingSums(comm::Group& group, std::vector<double> numbers, at::Device device)
    : numbers_(std::move(numbers)) {
  if (group.size() == 1) return;
  const at::Tensor values = ops::upload(at::tensor(numbers_, at::kDouble), device);
  work_ = group.all_reduce(values);
  host_ = values;
  if (device.is_cpu()) return;
  work_.wait();
  host_ = at::empty(values.sizes(), values.options().device(at::kCPU).pinned_memory(true));
  host_.copy_(values, /*non_blocking=*/true);
  copied_ = std::make_shared<c10::Event>(device.type());
  copied_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

std::vector<double> PendingSums::get() {
  if (!host_.defined()) return std::move(numbers_);
  work_.wait();
  if (copied_) copied_->synchronize();
  const double* const sums = host_.const_data_ptr<double>();
  return {sums, sums + host_.numel()};
}

void sum_over(comm::Group& group, std::vector<double>& numbers, at::Device device) {
  numbers = PendingSums(group, std::move(numbers), device).get();
}

double max_over(comm::Group& group, double number, at::Device device) {
  if (group.size() == 1) return number;
  const at::Tensor value = at::tensor({number}, at::kDouble).to(device);
  group.all_reduce(value, comm::Reduction::max).wait();
  return value.item<double>();
}

}  // namespace dpo::shard
