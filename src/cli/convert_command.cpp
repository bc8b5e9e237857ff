#include <memory>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/convert_arguments.h"
#include "cli/engine.h"

namespace dpo::cli {

void add_convert_command(CLI::App& program, Action& action, const std::vector<std::string>& words) {
  CLI::App& command = *program.add_subcommand("convert", "a model's weights in another format or dtype");
  const auto arguments = std::make_shared<ConvertArguments>();
  describe_convert(command, *arguments);
  command.callback([&action, &words, arguments] { action = [&words]() -> int { run_engine(words); }; });
}

}  // namespace dpo::cli
