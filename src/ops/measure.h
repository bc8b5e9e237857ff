// The sustained speed of a device, for `dpo bench device`.
#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// FLOP/s of large square matrix products.
double matmul_flops(at::Device device, at::ScalarType type);

// Bytes per second that a copy within the device's memory reads and writes.
double memory_bandwidth(at::Device device);

// Bytes per second of copies from one device to another; host memory is pinned.
double transfer_bandwidth(at::Device from, at::Device to);

}  // namespace dpo::ops
