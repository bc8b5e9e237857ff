#pragma once

#include <filesystem>
#include <string>

namespace dpo::hardware {

// How a processor multiplies bfloat16 matrices: by emulation, which is slower than float32; with vector
// instructions (AVX512-BF16, ARM's); or with a matrix unit (AMX).
enum class Bf16 { none, vector, amx };
const char* name_of(Bf16 kind);

// The processor and memory that this process may use, by its affinity (and so its cpuset) and the limits of
// its control groups, as containers, Slurm and systemd set them.
struct Processor {
  std::string name;  // "" if the kernel does not tell
  double cores = 1;  // a quota may be a fraction
  double memory = 0;
  double available = 0;  // memory not in use
  Bf16 bf16 = Bf16::none;
  int machine_cores = 1;  // of the whole machine
  double machine_memory = 0;

  int threads() const;  // enough to keep the cores busy
};

// `root`: the folder in which /proc and /sys are, for tests.
Processor find_processor(const std::filesystem::path& root = "/");

}  // namespace dpo::hardware
