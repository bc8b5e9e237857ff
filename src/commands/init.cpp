#include "commands/commands.h"

#include <CLI/CLI.hpp>

namespace dpo::commands {

void describe(CLI::App& command, InitArguments& arguments) {
  command.description("create a model with random weights from a config.json");
  takes_path(
      command.add_option("CONFIG", arguments.config,
                         "config.json, a folder with one, or a model name ORG/NAME on the Hugging Face hub"))
      ->required();
  takes_path(command.add_option("OUT", arguments.out, "new Hugging Face folder"))->required();
  command.add_option("--seed", arguments.seed, "random seed (default: 0)")->type_name("N");
  add_dtype(command, arguments.dtype, "dtype to write (default: that of CONFIG, else float32)");
}

}  // namespace dpo::commands
