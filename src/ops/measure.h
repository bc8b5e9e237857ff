// How fast this machine is, for `dpo bench device`: what products and copies reach, held for a while.
#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// FLOP/s of products of large square matrices.
double product_rate(at::Device device, at::ScalarType type);

// Bytes per second that a copy within the device's memory reads and writes.
double memory_rate(at::Device device);

// Bytes per second of copies from one device to another; memory of the host is pinned.
double transfer_rate(at::Device from, at::Device to);

}  // namespace dpo::ops
