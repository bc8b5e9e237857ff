#include "commands/commands.h"

#include <CLI/CLI.hpp>

namespace dpo::commands {

void describe(CLI::App& command, ModelArguments& arguments) {
  takes_path(command.add_option("MODEL", arguments.model,
                                "model folder, or model name ORG/NAME on the Hugging Face hub"))
      ->required();
  takes_path(
      command.add_option("--weights", arguments.weights,
                         "weights file to use instead of those in MODEL: policy.pt, .bin or .safetensors"))
      ->type_name("FILE");
  takes_path(command.add_option("--adapter", arguments.adapter,
                                "LoRA adapter of MODEL: a folder of dpo or PEFT, or its name on the hub"))
      ->type_name("DIR");
  takes_path(command.add_option("--tokenizer", arguments.tokenizer,
                                "tokenizer folder or name (default: the adapter's, else MODEL)"))
      ->type_name("DIR");
  command
      .add_option("--device", arguments.device,
                  "device to compute on (default: a GPU if there is one, else the CPU)")
      ->type_name("auto|cpu|cuda|cuda:N");
  add_dtype(command, arguments.dtype,
            "dtype to compute in (default: that of MODEL's config.json on a GPU, float32 on the CPU)");
}

bool is_adapter(const std::filesystem::path& folder) {
  std::error_code none;
  return exists(folder / kAdapterConfig, none) && !exists(folder / "config.json", none);
}

}  // namespace dpo::commands
