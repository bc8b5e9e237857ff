// Measures the sustained speed of a device, for `dpo bench device`.
#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// Returns the FLOP/s of large square matmuls.
double matmul_flops(at::Device device, at::ScalarType type);

// Returns the bytes per second that a copy within the device's memory reads and writes.
double memory_bandwidth(at::Device device);

// Returns the bytes per second of copies from one device to another. Host memory is pinned.
double transfer_bandwidth(at::Device from, at::Device to);

}  // namespace dpo::ops
