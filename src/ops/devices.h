// Describes the LibTorch in use and the devices it sees.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hardware/gpus.h"

namespace dpo {

using hardware::Gpu;

struct TensorLibrary {
  std::string version;
  std::filesystem::path folder;  // where the running program loaded it from
  std::string cpu_instructions;  // the widest in use: "AVX2", "AVX512", "SVE256", ...
  int threads = 0;
  bool cuda_part = false;  // this program was built with it
  std::optional<std::string> nccl_version;
};

TensorLibrary describe_tensor_library();

// Returns the peak memory in bytes: of the caching allocator on a GPU, of the whole process on the CPU.
std::uint64_t peak_memory(bool on_gpu);

// Frees cached memory of the current GPU, and counts its peak from now on. Does nothing without a GPU.
void reset_peak_gpu_memory();

// Makes the process keep the memory that it frees. On a CPU every microbatch allocates and frees the same
// gigabytes, and clearing new pages would take a fifth of its time.
void keep_freed_memory();

// Waits until the current GPU is idle, if there is one.
void wait_for_gpu();

// True if this program was built with LibTorch's CUDA part.
bool has_cuda_part();
std::uint64_t peak_gpu_memory();

// Returns the GPUs to compute on, the same ones that the plan uses.
std::vector<Gpu> list_gpus();
inline std::int64_t gpu_count() { return static_cast<std::int64_t>(list_gpus().size()); }

// Makes this GPU the process's current device.
void use_gpu(int index);

}  // namespace dpo
