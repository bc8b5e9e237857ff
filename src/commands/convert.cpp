#include "commands/commands.h"

#include <CLI/CLI.hpp>

namespace dpo::commands {

void describe(CLI::App& command, ConvertArguments& arguments) {
  command.description("write a model's weights in another format or dtype");
  takes_path(command.add_option(
                 "IN", arguments.in,
                 "model folder, model name ORG/NAME on the Hugging Face hub, or weights file with --config"))
      ->required();
  takes_path(command.add_option(
                 "OUT", arguments.out,
                 "new Hugging Face folder, or new file NAME.pt like policy.pt of the original DPO code"))
      ->required();
  takes_path(
      command.add_option("--config", arguments.config, "config.json for a weights file, or its folder"))
      ->type_name("CONFIG");
  add_dtype(command, arguments.dtype, "dtype to write (default: unchanged)");
  command
      .add_option("--shard-size", arguments.shard_bytes,
                  "maximum size of a weights file, such as 5GB or 500MB (default: 5GB)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true).description(""))
      ->check([](const std::string& bytes) { return bytes == "0" ? "must be at least 1 byte" : ""; });
}

}  // namespace dpo::commands
