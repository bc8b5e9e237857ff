#include "ops/segments.h"

#include <algorithm>

#include <ATen/ops/tensor.h>

#include "ops/upload.h"

namespace dpo::ops {

Segments make_segments(std::vector<std::int32_t> starts, at::Device device) {
  const at::Tensor device_starts = upload(at::tensor(starts, at::kInt), device);
  return make_segments(std::move(starts), device_starts);
}

Segments make_segments(std::vector<std::int32_t> starts, at::Tensor device_starts) {
  Segments segments;
  for (std::size_t i = 1; i < starts.size(); ++i)
    segments.longest = std::max<std::int64_t>(segments.longest, starts[i] - starts[i - 1]);
  segments.device_starts = std::move(device_starts);
  segments.starts = std::move(starts);
  return segments;
}

}  // namespace dpo::ops
