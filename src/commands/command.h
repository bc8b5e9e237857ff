// Commands of a program: their options, help and actions, and helpers to describe them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/compose.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace dpo::commands {

// Runs a command after its arguments are parsed and returns the exit status.
using Action = std::function<int()>;

struct Command {
  std::string name;
  std::function<Action(CLI::App& command)> add;  // adds help and options
};

// Returns the KEY=VALUE arguments of a command line. Throws a UserError for an unknown option.
std::vector<std::string> overrides_of(const CLI::App& command);

// Returns a command with the options that describe(CLI::App&, Arguments&) adds. Arguments with a run's
// configuration store it as `request`.
template <class Arguments, class Run>
Command make_command(std::string name, Run run) {
  return {std::move(name), [run](CLI::App& command) -> Action {
            const auto arguments = std::make_shared<Arguments>();
            describe(command, *arguments);
            return [&command, arguments, run]() -> int {
              if constexpr (requires { arguments->request; })
                arguments->request.overrides = overrides_of(command);
              return run(*arguments);
            };
          }};
}

// Returns a command with subcommands, one of which is required: bench train, bench device.
Command make_group(std::string name, std::string help, std::vector<Command> commands);

// Implements main(): parses the arguments, runs the command and prints errors. Returns the exit status.
// `first_steps` are the commands shown if none is given; if empty, a missing command is an error.
int run_program(CLI::App& program, const std::vector<Command>& commands, std::vector<std::string> arguments,
                const std::vector<std::string>& first_steps = {});

// The end of the help of a command that takes a run's configuration.
struct RunHelp {
  std::vector<std::string> examples;  // run unchanged, in a folder with their files
  std::string notes = {};
  bool shows_keys = false;  // the main keys; shown on one page only
};

// Adds the arguments of every command that takes a run's configuration: KEY=VALUE, --config, --config-dir.
// The help then ends with how to set keys and where they are listed.
void add_run_arguments(CLI::App& command, config::Request& request, RunHelp help);

// Expands ~/ at the start of an option's value, which the shell does not do in --option=~/x.
CLI::Option* takes_path(CLI::Option* option);

// Rejects values that are not whole numbers of at least 1.
CLI::Option* at_least_one(CLI::Option* option);

// Rejects values that are not one of these names, and lists the names in the help.
CLI::Option* takes_one_of(CLI::Option* option, const std::vector<std::string>& names);

// Adds --dtype.
void add_dtype(CLI::App& command, std::string& dtype, const std::string& help);

// Adds --dtype and --modelfile of a command that writes a model as a folder or as a GGUF file. Short names
// such as bf16 become those of PyTorch. `fallback` describes the dtype without the option.
void add_gguf_options(CLI::App& command, std::string& dtype, bool& modelfile, const std::string& fallback);

bool is_gguf(const std::string& path);  // by its extension

// Notes and errors go to stderr, so that stdout contains only results.
void print_notes(const std::vector<std::string>& notes);
void print_error(const std::string& message);

}  // namespace dpo::commands
