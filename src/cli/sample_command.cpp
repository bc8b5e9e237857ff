#include <memory>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/engine.h"
#include "cli/sample_arguments.h"

namespace dpo::cli {

void add_sample_command(CLI::App& program, Action& action, const std::vector<std::string>& words) {
  CLI::App& command = *program.add_subcommand("sample", "text that a model writes behind prompts");
  const auto arguments = std::make_shared<SampleArguments>();
  describe_sample(command, *arguments);
  command.callback([&action, &words, arguments] { action = [&words]() -> int { run_engine(words); }; });
}

}  // namespace dpo::cli
