#include "commands/commands.h"

#include <CLI/CLI.hpp>

namespace dpo::commands {

void describe(CLI::App& command, DemoArguments& arguments) {
  command.description("train a small model with SFT and DPO in a minute or two, and show what it learned");
  takes_path(command.add_option("--dir", arguments.folder, "output folder (default: dpo-demo)"))
      ->type_name("DIR");
  command.add_option("--seed", arguments.seed, "random seed of task, model and samples (default: 0)")
      ->type_name("N");
  command.add_flag("--lora", arguments.lora, "DPO trains a LoRA adapter over the SFT model");
  command.add_flag(
      "--json", arguments.json,
      R"(print one JSON object: {"heldout_accuracy", "accepted": {"init", "sft", "dpo"}, "seconds"})");
  command.footer(
      "Generates a preference task and trains a small model on it from scratch, with SFT and then DPO, on "
      "one\n"
      "CPU core. A rule counts the good replies before and after. The output folder must be new, empty, or "
      "of\n"
      "an earlier demonstration, whose results are replaced.");
}

}  // namespace dpo::commands
