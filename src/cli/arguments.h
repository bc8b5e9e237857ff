#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/compose.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace dpo::cli {

// What the chosen command does; it returns the exit code.
using Action = std::function<int()>;

// The end of the help of a command that takes a run's configuration.
struct RunHelp {
  std::vector<std::string> examples;  // commands that work as they stand, from a folder with their files
  std::string notes = {};
};

// The arguments of every command that takes a run's configuration: KEY=VALUE words, --config, --config-dir.
// Its help ends with how keys are given, those that matter most, and where all are listed.
void add_run_arguments(CLI::App& command, config::Request& request, RunHelp help);

// The KEY=VALUE words that stood on the command line. An option that nobody knows is a UserError.
std::vector<std::string> overrides_of(const CLI::App& command);

// Lets the value of an option, which is a path, begin with ~/ (the shell leaves that of --option=~/x alone).
CLI::Option* takes_path(CLI::Option* option);

// Notes and warnings go to stderr, so that stdout holds results alone.
void print_notes(const std::vector<std::string>& notes);

}  // namespace dpo::cli
