// hardware describes this machine, according to the GPU driver and the kernel. The plan, the engine and `dpo
// doctor` all ask here, so that they cannot disagree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dpo::hardware {

// One GPU as its driver describes it. Values that the driver does not know are 0.
struct Gpu {
  std::string name;  // "NVIDIA H200"
  int capability_major = 0;
  int capability_minor = 0;
  std::uint64_t memory_bytes = 0;
  int multiprocessors = 0;
  double clock = 0;         // Hz, the highest
  double memory_clock = 0;  // Hz
  int bus_bits = 0;         // width of the memory bus
  double pcie = 0;          // bytes per second of its slot, in one direction
  bool nvlink = false;      // linked to another GPU of this machine by more than PCIe

  std::string compute_capability() const;  // "9.0"
  bool at_least(int major, int minor) const;
};

// The GPUs that the driver shows to this process. The driver applies CUDA_VISIBLE_DEVICES, containers, WSL
// and MIG.
struct Gpus {
  std::vector<Gpu> found;
  std::string obstacle;  // why this build cannot use them, and what to do; empty if it can

  std::vector<Gpu> usable() const { return obstacle.empty() ? found : std::vector<Gpu>(); }
};

// Returns the CUDA version of this build: 13 for 13.0, 0 without CUDA, nullopt if unknown.
std::optional<int> cuda_of_this_build();

// Asks the driver (libcuda.so.1), once per process.
const Gpus& find_gpus();

// Asks the driver for a build with another CUDA. The result is not cached.
Gpus ask_driver(std::optional<int> cuda_of_build);

}  // namespace dpo::hardware
