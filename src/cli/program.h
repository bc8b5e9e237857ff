#pragma once

#include <string>
#include <vector>

#include "cli/arguments.h"

namespace dpo::cli {

// The rest of a main(): finds the command among those that were added to `program`, parses the words, runs
// the action that the command has set, and says what went wrong. Returns the exit code.
int run_program(CLI::App& program, const Action& action, const std::vector<std::string>& words);

}  // namespace dpo::cli
