#include <memory>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/engine.h"
#include "cli/train_arguments.h"

namespace dpo::cli {

void add_train_command(CLI::App& program, Action& action, const std::vector<std::string>& words) {
  CLI::App& command = *program.add_subcommand("train", "a run: SFT or preference optimization");
  const auto arguments = std::make_shared<TrainArguments>();
  describe_train(command, *arguments);
  command.callback([&command, &action, &words, arguments] {
    overrides_of(command);  // an option that nobody knows is found without LibTorch
    action = [&words]() -> int { run_engine(words); };
  });
}

}  // namespace dpo::cli
