#include <memory>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/engine.h"
#include "cli/score_arguments.h"

namespace dpo::cli {

void add_score_command(CLI::App& program, Action& action, const std::vector<std::string>& words) {
  CLI::App& command =
      *program.add_subcommand("score", "log-probabilities of responses, and rewards against a reference");
  const auto arguments = std::make_shared<ScoreArguments>();
  describe_score(command, *arguments);
  command.callback([&action, &words, arguments] { action = [&words]() -> int { run_engine(words); }; });
}

}  // namespace dpo::cli
