#include "ops/upload.h"

#include <algorithm>

#include <ATen/ops/empty.h>

namespace dpo::ops {
namespace {

std::int64_t size_of(const std::vector<Upload>& arrays) {
  std::size_t size = 0;
  for (const Upload& array : arrays) size += array.from.size();
  return static_cast<std::int64_t>(size);
}

// Copies the arrays one after the other, and returns the end of the copies.
std::int32_t* pack(const std::vector<Upload>& arrays, std::int32_t* to) {
  for (const Upload& array : arrays) to = std::ranges::copy(array.from, to).out;
  return to;
}

// Makes the arrays' tensors views of `all`, in which their numbers follow each other.
void unpack(const at::Tensor& all, const std::vector<Upload>& arrays) {
  std::int64_t begin = 0;
  for (const Upload& array : arrays) {
    const auto size = static_cast<std::int64_t>(array.from.size());
    *array.to = all.narrow(0, begin, size);
    begin += size;
  }
}

}  // namespace

at::Tensor upload(const at::Tensor& host, at::Device device) {
  if (!device.is_cuda() || host.numel() == 0) return host.to(device);
  return host.pin_memory().to(device, /*non_blocking=*/true);
}

void upload(const Uploads& arrays, at::Device device) {
  const std::int64_t longs = size_of(arrays.longs), ints = size_of(arrays.ints);
  const at::Tensor host =
      at::empty({longs + ints}, at::TensorOptions(at::kInt).pinned_memory(device.is_cuda()));
  pack(arrays.ints, pack(arrays.longs, host.mutable_data_ptr<std::int32_t>()));
  const at::Tensor all = host.to(device, /*non_blocking=*/true);
  unpack(all.narrow(0, 0, longs).to(at::kLong), arrays.longs);
  unpack(all.narrow(0, longs, ints), arrays.ints);
}

}  // namespace dpo::ops
