#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// A tensor of the host on a device. To a GPU it is copied from pinned memory, and the host does not wait.
at::Tensor upload(const at::Tensor& host, at::Device device);

// Several arrays in one transfer, as int32 tensors that are parts of one: it, then they.
struct Uploaded {
  at::Tensor all;
  std::vector<at::Tensor> parts;
};
Uploaded upload(const std::vector<std::span<const std::int32_t>>& arrays, at::Device device);

}  // namespace dpo::ops
