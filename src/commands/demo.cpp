#include "commands/commands.h"

#include <CLI/CLI.hpp>

namespace dpo::commands {

void describe(CLI::App& command, DemoArguments& arguments) {
  command.description("train a small model with SFT and DPO in a minute, and show what it learned");
  takes_path(command.add_option("--dir", arguments.folder, "where everything goes (default: dpo-demo)"))
      ->type_name("DIR");
  command.add_option("--seed", arguments.seed, "of the task, the model and the samples (default: 0)")
      ->type_name("N");
  command.add_flag("--json", arguments.json,
                   R"(one object: {"heldout_accuracy", "accepted": {"init", "sft", "dpo"}, "seconds"})");
  command.footer(
      "A preference task is made up, and a small model is trained on it from scratch with SFT and then DPO, "
      "as\n"
      "'dpo train' does it, on one processor core. A rule counts the good replies before and after.\n"
      "A folder that an earlier demonstration made is made again; any other must be absent or empty.");
}

}  // namespace dpo::commands
