#include "commands/commands.h"

#include <CLI/CLI.hpp>

namespace dpo::commands {

void describe(CLI::App& command, InitArguments& arguments) {
  command.description("make a new model with random weights from a config.json");
  takes_path(command.add_option(
                 "CONFIG", arguments.config,
                 "a config.json, a folder with one, or a model's name ORG/NAME in the Hugging Face cache"))
      ->required();
  takes_path(command.add_option("OUT", arguments.out, "a new folder as Hugging Face lays it out"))
      ->required();
  command.add_option("--seed", arguments.seed, "of the random numbers (default: 0)")->type_name("N");
  add_dtype(command, arguments.dtype,
            "the dtype to write (default: the one that CONFIG names, else float32)");
}

}  // namespace dpo::commands
