#include "hardware/gpus.h"

#include <algorithm>

#include <fmt/format.h>

#include "hardware/driver.h"

namespace dpo::hardware {
namespace {

// CUDA 13 has no kernels for anything older than Turing.
constexpr int kCudaWithoutVolta = 13;

std::string obstacle_of(const DriverAnswer& driver, std::optional<int> cuda) {
  if (driver.error != 0)
    return fmt::format("the GPU's driver does not start (CUDA error {}): nvidia-smi says more", driver.error);
  if (driver.gpus.empty()) return "";
  if (cuda == 0)
    return "this dpo was built without the CUDA part of LibTorch: ./run build, on this machine, builds it in";
  if (cuda && driver.cuda / 1000 < *cuda)
    return fmt::format(
        "this dpo was built with CUDA {}, and the GPU's driver serves CUDA {}.{} at most: install a newer "
        "driver, or LIBTORCH=DIR ./run build with a LibTorch for CUDA {}",
        *cuda, driver.cuda / 1000, driver.cuda % 1000 / 10, driver.cuda / 1000);
  const auto old = std::ranges::find_if(driver.gpus, [](const Gpu& gpu) { return !gpu.at_least(7, 5); });
  if (cuda.value_or(0) >= kCudaWithoutVolta && old != driver.gpus.end())
    return fmt::format(
        "this dpo was built with CUDA {}, which has nothing for a GPU of compute capability {} ({}): "
        "LIBTORCH=DIR ./run build with a LibTorch for CUDA 12.6",
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
  constexpr int kCuda = DPO_CUDA_OF_BUILD;  // -1: with some CUDA
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
