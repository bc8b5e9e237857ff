#include "commands/commands.h"

#include <CLI/CLI.hpp>

namespace dpo::commands {

void describe(CLI::App& command, MergeArguments& arguments) {
  command.description("write a model with a LoRA adapter merged into its weights");
  takes_path(command.add_option("MODEL", arguments.model,
                                "model folder, or model name ORG/NAME on the Hugging Face hub"))
      ->required();
  takes_path(command.add_option("ADAPTER", arguments.adapter,
                                "adapter folder of dpo or PEFT, or its name ORG/NAME on the hub"))
      ->required();
  takes_path(command.add_option("OUT", arguments.out,
                                "new Hugging Face folder, or new file NAME.gguf for llama.cpp and Ollama"))
      ->required();
  add_gguf_options(command, arguments.dtype, arguments.modelfile, "that of MODEL");
  command.footer(
      "The sum is computed in float32 and rounded once. Before anything is written, log-probabilities of "
      "the\n"
      "merged model are compared with those of MODEL with ADAPTER, both in float32. A tokenizer and chat "
      "template\n"
      "in ADAPTER replace those of MODEL.");
}

}  // namespace dpo::commands
