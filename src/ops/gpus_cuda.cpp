#include <cuda_runtime_api.h>

#include <fmt/format.h>

#include "ops/devices.h"

namespace dpo {

bool has_cuda_part() { return true; }

std::vector<Gpu> list_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return {};  // no driver, or one that is too old: no GPUs
  std::vector<Gpu> gpus;
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) continue;
    gpus.push_back({.name = properties.name,
                    .compute_capability = fmt::format("{}.{}", properties.major, properties.minor),
                    .memory_bytes = properties.totalGlobalMem});
  }
  return gpus;
}

}  // namespace dpo
