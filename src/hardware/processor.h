#pragma once

#include <filesystem>
#include <string>

namespace dpo::hardware {

// How a processor multiplies matrices of bfloat16: by taking its numbers apart, which is slower than float32;
// with instructions of its vector unit (AVX512-BF16, ARM's); or of a matrix unit (AMX).
enum class Bf16 { none, vector, amx };
const char* name_of(Bf16 kind);

// The processor and its memory, as far as this process may use them: by its affinity (and so its cpuset), and
// by the limits of its control groups, as containers, Slurm and systemd set them.
struct Processor {
  std::string name;  // "" where the kernel does not tell
  double cores = 1;  // a quota may be a fraction
  double memory = 0;
  double available = 0;  // of that memory, what is not in use
  Bf16 bf16 = Bf16::none;
  int machine_cores = 1;  // of the whole machine
  double machine_memory = 0;

  int threads() const;  // that keep the cores busy
};

// `root`: the folder in which /proc and /sys are, for tests.
Processor find_processor(const std::filesystem::path& root = "/");

}  // namespace dpo::hardware
