// Starts dpo-engine, the executable next to dpo with the commands that compute. Loading LibTorch takes a
// third of a second, so dpo itself is not linked with it.
#pragma once

#include <string>
#include <vector>

namespace dpo::commands {

// Replaces this process with dpo-engine: same process id, files and environment, so that signals, mpirun and
// job systems see one program. Returns only by throwing a UserError.
[[noreturn]] void run_engine(const std::vector<std::string>& arguments);

struct EngineOutput {
  bool succeeded = false;
  std::string text;  // its stdout, or its error if it failed
};

// Runs dpo-engine as a child process and waits for it.
EngineOutput output_of_engine(const std::vector<std::string>& arguments);

}  // namespace dpo::commands
