#include "commands/commands.h"

#include <CLI/CLI.hpp>

namespace dpo::commands {

void describe(CLI::App& command, ModelArguments& arguments) {
  takes_path(command.add_option("MODEL", arguments.model,
                                "a model's folder, or its name ORG/NAME in the Hugging Face cache"))
      ->required();
  takes_path(command.add_option("--weights", arguments.weights,
                                "weights instead of those in the folder: a policy.pt, .bin or .safetensors"))
      ->type_name("FILE");
  takes_path(
      command.add_option("--tokenizer", arguments.tokenizer, "the tokenizer's folder (default: MODEL)"))
      ->type_name("DIR");
  command
      .add_option("--device", arguments.device,
                  "where to compute (default: a GPU if there is one, else the CPU)")
      ->type_name("auto|cpu|cuda|cuda:N");
  add_dtype(command, arguments.dtype,
            "to compute in (default: on a GPU what the model's config.json says, on the CPU float32)");
}

}  // namespace dpo::commands
