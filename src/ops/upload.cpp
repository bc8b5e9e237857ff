#include "ops/upload.h"

#include <algorithm>

#include <ATen/ops/empty.h>

namespace dpo::ops {

at::Tensor upload(const at::Tensor& host, at::Device device) {
  if (!device.is_cuda() || host.numel() == 0) return host.to(device);
  return host.pin_memory().to(device, /*non_blocking=*/true);
}

Uploaded upload(const std::vector<std::span<const std::int32_t>>& arrays, at::Device device) {
  std::vector<std::int64_t> sizes;
  std::int64_t size = 0;
  for (const auto array : arrays) size += sizes.emplace_back(static_cast<std::int64_t>(array.size()));
  const at::Tensor host = at::empty({size}, at::TensorOptions(at::kInt).pinned_memory(device.is_cuda()));
  std::int32_t* to = host.mutable_data_ptr<std::int32_t>();
  for (const auto array : arrays) to = std::ranges::copy(array, to).out;
  const at::Tensor all = host.to(device, /*non_blocking=*/true);
  return {all, all.split_with_sizes(sizes)};
}

}  // namespace dpo::ops
