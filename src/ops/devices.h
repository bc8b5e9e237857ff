// ops: tensor operations with CPU and CUDA bodies. Here: what the tensor library is and sees on this machine.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace dpo {

struct Gpu {
  std::string name;
  std::string compute_capability;  // "9.0"
  std::uint64_t memory_bytes = 0;
};

struct TensorLibrary {
  std::string version;
  std::filesystem::path folder;  // that the running program loaded it from
  std::string cpu_instructions;  // the widest it uses: "AVX2", "AVX512", "SVE256", ...
  int threads = 0;
  bool cuda_part = false;  // whether this program was built with it
  std::optional<std::string> nccl_version;
  std::vector<Gpu> gpus;
};

TensorLibrary describe_tensor_library();

// The GPUs that CUDA sees; none in a program without the CUDA part.
bool has_cuda_part();
std::vector<Gpu> list_gpus();

}  // namespace dpo
