#include <memory>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/engine.h"
#include "cli/init_arguments.h"

namespace dpo::cli {

void add_init_command(CLI::App& program, Action& action, const std::vector<std::string>& words) {
  CLI::App& command = *program.add_subcommand("init", "a new model with random weights from a config.json");
  const auto arguments = std::make_shared<InitArguments>();
  describe_init(command, *arguments);
  command.callback([&action, &words, arguments] { action = [&words]() -> int { run_engine(words); }; });
}

}  // namespace dpo::cli
