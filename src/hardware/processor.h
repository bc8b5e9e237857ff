#pragma once

#include <filesystem>
#include <string>

namespace dpo::hardware {

// Support of a processor for bfloat16 matmuls. none: by emulation, slower than float32. vector: with vector
// instructions (AVX512-BF16, ARM's). amx: with a matrix unit (AMX).
enum class Bf16 { none, vector, amx };
const char* name_of(Bf16 kind);

// The processor and memory that this process may use. Affinity (and thus its cpuset) and the limits of its
// control groups apply, as containers, Slurm and systemd set them.
struct Processor {
  std::string name;  // empty if the kernel does not tell
  double cores = 1;  // a quota may be a fraction
  double memory = 0;
  double available = 0;  // bytes not in use
  Bf16 bf16 = Bf16::none;
  int machine_cores = 1;  // cores of the whole machine
  double machine_memory = 0;

  int threads() const;  // number of threads that keeps the cores busy
};

// `root` is the folder that contains /proc and /sys; tests pass another one.
Processor find_processor(const std::filesystem::path& root = "/");

}  // namespace dpo::hardware
