#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// Copies a host tensor to a device. Copies to a GPU use pinned memory, and the host does not wait.
at::Tensor upload(const at::Tensor& host, at::Device device);

// An array on the host and the tensor that receives its numbers.
struct Upload {
  std::span<const std::int32_t> from;
  at::Tensor* to = nullptr;
};

// Arrays for one transfer. Those of `longs` become int64 tensors, and those of `ints` int32 tensors.
struct Uploads {
  std::vector<Upload> longs, ints;
};

// Sends all arrays in one transfer, and makes the int64 tensors with one conversion.
void upload(const Uploads& arrays, at::Device device);

}  // namespace dpo::ops
