// cli: the program and its commands. Here: the half of it that is linked with LibTorch.
//
// Loading LibTorch takes a third of a second, so `dpo` itself is not linked with it. The commands that
// compute live in `dpo-engine`, an executable beside it.
#pragma once

#include <string>
#include <vector>

namespace dpo::commands {

// Replaces this process by dpo-engine with these arguments: same process id, files and environment, so
// that signals, mpirun and job systems see one program. Returns only by throwing a UserError.
[[noreturn]] void run_engine(const std::vector<std::string>& arguments);

struct EngineOutput {
  bool succeeded = false;
  std::string text;  // what it wrote to stdout, or, if it failed, why
};

// Runs dpo-engine beside this process and waits for it.
EngineOutput output_of_engine(const std::vector<std::string>& arguments);

}  // namespace dpo::commands
