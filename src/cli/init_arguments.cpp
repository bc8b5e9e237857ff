#include "cli/init_arguments.h"

#include <CLI/CLI.hpp>

#include "cli/arguments.h"

namespace dpo::cli {

void describe_init(CLI::App& command, InitArguments& arguments) {
  takes_path(command.add_option(
                 "CONFIG", arguments.config,
                 "a config.json, a folder with one, or a model's name ORG/NAME in the Hugging Face cache"))
      ->required();
  takes_path(command.add_option("OUT", arguments.out, "a new folder as Hugging Face lays it out"))
      ->required();
  command.add_option("--seed", arguments.seed, "of the random numbers (default: 0)")->type_name("N");
  command
      .add_option("--dtype", arguments.dtype,
                  "the dtype to write (default: the one that CONFIG names, else float32)")
      ->type_name("float32|bfloat16|float16")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}).description(""));
}

}  // namespace dpo::cli
