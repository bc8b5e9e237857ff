#pragma once

#include <functional>
#include <string>

#include "config/compose.h"

namespace CLI {
class App;
}

namespace dpo::cli {

// What the chosen command does; it returns the exit code.
using Action = std::function<int()>;

// The arguments of every command that takes a run's configuration: KEY=VALUE words, --config, --config-dir.
void add_run_arguments(CLI::App& command, config::Request& request);

// The KEY=VALUE words that stood on the command line. An option that nobody knows is a UserError.
std::vector<std::string> overrides_of(const CLI::App& command);

// Notes and warnings go to stderr, so that stdout holds results alone.
void print_notes(const std::vector<std::string>& notes);

}  // namespace dpo::cli
