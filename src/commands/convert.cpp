#include "commands/commands.h"

#include <CLI/CLI.hpp>

namespace dpo::commands {

void describe(CLI::App& command, ConvertArguments& arguments) {
  command.description("write a model's weights in another format or dtype");
  takes_path(command.add_option(
                 "IN", arguments.in,
                 "a model's folder, its name ORG/NAME in the Hugging Face cache, or a file of weights "
                 "(.safetensors, .bin, .pt) together with --config"))
      ->required();
  takes_path(command.add_option(
                 "OUT", arguments.out,
                 "a new folder as Hugging Face lays it out, or a file NAME.pt as the original's policy.pt"))
      ->required();
  takes_path(
      command.add_option("--config", arguments.config, "the config.json of a file of weights, or its folder"))
      ->type_name("CONFIG");
  add_dtype(command, arguments.dtype, "the dtype to write (default: as it is)");
  command
      .add_option("--shard-size", arguments.shard_bytes,
                  "the largest file of weights, as 5GB or 500MB (default: 5GB)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true).description(""))
      ->check(
          [](const std::string& bytes) { return bytes == "0" ? "a file cannot hold less than 1 byte" : ""; });
}

}  // namespace dpo::commands
