#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// Copies a host tensor to a device. Copies to a GPU use pinned memory, and the host does not wait.
at::Tensor upload(const at::Tensor& host, at::Device device);

// Several arrays sent in one transfer: the whole int32 tensor, and the parts of it, one per array.
struct Uploaded {
  at::Tensor all;
  std::vector<at::Tensor> parts;
};
Uploaded upload(const std::vector<std::span<const std::int32_t>>& arrays, at::Device device);

}  // namespace dpo::ops
