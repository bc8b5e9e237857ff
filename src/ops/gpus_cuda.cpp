#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <fmt/format.h>

#include "ops/devices.h"

namespace dpo {

bool has_cuda_part() { return true; }

std::uint64_t peak_gpu_memory() {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
  return static_cast<std::uint64_t>(stats.allocated_bytes[0].peak);
}

void use_gpu(int index) { c10::cuda::set_device(static_cast<c10::DeviceIndex>(index)); }

void wait_for_gpu() { cudaDeviceSynchronize(); }

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
