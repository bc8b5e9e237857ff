// Starts dpo-engine, the executable next to dpo that contains the commands that compute. Loading LibTorch
// takes a third of a second, so dpo itself is not linked with it.
#pragma once

#include <string>
#include <vector>

namespace dpo::commands {

// Replaces this process with dpo-engine. It keeps process id, files and environment, so that signals, mpirun
// and job systems see one program. Does not return; throws a UserError on failure.
[[noreturn]] void run_engine(const std::vector<std::string>& arguments);

struct EngineOutput {
  bool succeeded = false;
  std::string text;  // stdout, or the error if it failed
};

// Runs dpo-engine as a child process and waits for it.
EngineOutput output_of_engine(const std::vector<std::string>& arguments);

}  // namespace dpo::commands
