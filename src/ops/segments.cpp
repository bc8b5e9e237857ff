#include "ops/segments.h"

#include <algorithm>

#include <ATen/ops/tensor.h>

namespace dpo::ops {

Segments make_segments(std::vector<std::int32_t> starts, at::Device device) {
  Segments segments;
  for (std::size_t i = 1; i < starts.size(); ++i)
    segments.longest = std::max<std::int64_t>(segments.longest, starts[i] - starts[i - 1]);
  segments.device_starts = at::tensor(starts, at::kInt).to(device);
  segments.starts = std::move(starts);
  return segments;
}

}  // namespace dpo::ops
