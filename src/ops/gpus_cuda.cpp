// Uses LibTorch's interface for all accelerators. CUDA's own headers come with a toolkit, which a machine
// with a GPU need not have.
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "ops/devices.h"

namespace dpo {
namespace {

const c10::impl::DeviceGuardImplInterface& accelerator() { return *c10::impl::getDeviceGuardImpl(at::kCUDA); }

}  // namespace

bool has_cuda_part() { return true; }

std::uint64_t peak_gpu_memory() {
  const auto stats = c10::getDeviceAllocator(at::kCUDA)->getDeviceStats(accelerator().getDevice().index());
  return static_cast<std::uint64_t>(stats.allocated_bytes[0].peak);
}

void reset_peak_gpu_memory() {
  if (list_gpus().empty()) return;
  c10::DeviceAllocator* const allocator = c10::getDeviceAllocator(at::kCUDA);
  if (!allocator->initialized()) return;  // nothing was allocated yet
  allocator->emptyCache();
  allocator->resetPeakStats(accelerator().getDevice().index());
}

void use_gpu(int index) { accelerator().setDevice({at::kCUDA, static_cast<c10::DeviceIndex>(index)}); }

void wait_for_gpu() {
  if (!list_gpus().empty()) accelerator().synchronizeDevice(accelerator().getDevice().index());
}

}  // namespace dpo
