// ops implements tensor operations on the CPU and on CUDA.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// Sequences packed one after the other in one array of tokens (cu_seqlens).
struct Segments {
  std::vector<std::int32_t> starts;  // [count + 1], cumulative lengths
  at::Tensor device_starts;          // `starts` as int32 on the tokens' device
  std::int64_t longest = 0;

  std::int64_t count() const { return static_cast<std::int64_t>(starts.size()) - 1; }
  std::int64_t tokens() const { return starts.back(); }
};

Segments make_segments(std::vector<std::int32_t> starts, at::Device device);
// Overload without a device, which leaves device_starts undefined.
Segments make_segments(std::vector<std::int32_t> starts);

}  // namespace dpo::ops
