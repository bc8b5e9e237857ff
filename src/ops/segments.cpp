#include "ops/segments.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/tensor.h>

#include "ops/upload.h"

namespace dpo::ops {

Segments make_segments(std::vector<std::int32_t> starts, at::Device device) {
  Segments segments = make_segments(std::move(starts));
  segments.device_starts = upload(at::tensor(segments.starts, at::kInt), device);
  return segments;
}

Segments make_segments(std::vector<std::int32_t> starts) {
  Segments segments;
  for (std::size_t i = 1; i < starts.size(); ++i)
    segments.longest = std::max<std::int64_t>(segments.longest, starts[i] - starts[i - 1]);
  segments.starts = std::move(starts);
  return segments;
}

}  // namespace dpo::ops
