// ops: tensor operations with CPU and CUDA bodies. Here: what the tensor library is and sees on this machine.
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
  std::filesystem::path folder;  // that the running program loaded it from
  std::string cpu_instructions;  // the widest it uses: "AVX2", "AVX512", "SVE256", ...
  int threads = 0;
  bool cuda_part = false;  // whether this program was built with it
  std::optional<std::string> nccl_version;
};

TensorLibrary describe_tensor_library();

// The most bytes of tensors that were in memory at once: on a GPU those of the allocator, on the CPU those of
// the whole process.
std::uint64_t peak_memory(bool on_gpu);

// From now on memory that was freed stays with the process. On a CPU every microbatch takes and frees the
// same gigabytes, and a fifth of its time would go into clearing new pages.
void keep_freed_memory();

// Waits until a GPU has done what it was given.
void wait_for_gpu();

// Whether this program was built with LibTorch's CUDA part.
bool has_cuda_part();
std::uint64_t peak_gpu_memory();

// The GPUs to compute on: those that the plan is for too.
std::vector<Gpu> list_gpus();
inline std::int64_t gpu_count() { return static_cast<std::int64_t>(list_gpus().size()); }

// From now on this process computes on that GPU, where nothing else is said.
void use_gpu(int index);

}  // namespace dpo
