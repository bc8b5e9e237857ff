#include "hardware/gpus.h"

#include <algorithm>

#include <fmt/format.h>

#include "hardware/driver.h"

namespace dpo::hardware {
namespace {

// CUDA 13 has no kernels for GPUs older than Turing.
constexpr int kCudaWithoutVolta = 13;

std::string obstacle_of(const DriverAnswer& driver, std::optional<int> cuda) {
  if (driver.error != 0)
    return fmt::format("the GPU driver does not start (CUDA error {}); run nvidia-smi for details",
                       driver.error);
  if (driver.gpus.empty()) return "";
  if (cuda == 0)
    return "this dpo was built without CUDA; run ./run build on this machine, or install dpo's package for "
           "GPUs";
  if (cuda && driver.cuda / 1000 < *cuda)
    return fmt::format(
        "this dpo was built with CUDA {}, and the GPU driver supports at most CUDA {}.{}; install a newer "
        "driver, or build with a LibTorch for CUDA {}: LIBTORCH=DIR ./run build",
        *cuda, driver.cuda / 1000, driver.cuda % 1000 / 10, driver.cuda / 1000);
  const auto old = std::ranges::find_if(driver.gpus, [](const Gpu& gpu) { return !gpu.at_least(7, 5); });
  if (cuda.value_or(0) >= kCudaWithoutVolta && old != driver.gpus.end())
    return fmt::format(
        "this dpo was built with CUDA {}, which does not support compute capability {} ({}); "
        "build with a LibTorch for CUDA 12.6: LIBTORCH=DIR ./run build",
        *cuda, old->compute_capability(), old->name);
  return "";
}

}  // namespace

std::string Gpu::compute_capability() const {
  return fmt::format("{}.{}", capability_major, capability_minor);
}

bool Gpu::at_least(int major, int minor) const {
  return capability_major > major || (capability_major == major && capability_minor >= minor);
}

std::optional<int> cuda_of_this_build() {
  constexpr int kCuda = DPO_CUDA_OF_BUILD;  // -1: an unknown version of CUDA
  return kCuda < 0 ? std::nullopt : std::optional(kCuda);
}

Gpus ask_driver(std::optional<int> cuda_of_build) {
  DriverAnswer driver = read_driver();
  std::string obstacle = obstacle_of(driver, cuda_of_build);
  return {std::move(driver.gpus), std::move(obstacle)};
}

const Gpus& find_gpus() {
  static const Gpus gpus = ask_driver(cuda_of_this_build());
  return gpus;
}

}  // namespace dpo::hardware
