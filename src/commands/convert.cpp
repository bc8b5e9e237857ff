#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "commands/commands.h"

namespace dpo::commands {
namespace {

// Reports an OUT that has the extension of a weights file but would become a folder, because only .pt
// and .gguf are files.
std::string problem_of_out(const std::string& out) {
  std::string type = std::filesystem::path(out).extension().string();
  std::ranges::transform(type, type.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* const weights : {".safetensors", ".bin", ".pth", ".ckpt"})
    if (type == weights) return fmt::format("{}: expected a folder, or a file NAME.pt or NAME.gguf", out);
  return "";
}

}  // namespace

void describe(CLI::App& command, ConvertArguments& arguments) {
  command.description("write a model's weights in another format or dtype");
  takes_path(command.add_option(
                 "IN", arguments.in,
                 "model folder, run, model name ORG/NAME on the Hugging Face hub, or weights file with "
                 "--config; for GGUF also an adapter folder"))
      ->required();
  takes_path(command.add_option(
                 "OUT", arguments.out,
                 "new Hugging Face folder, new file NAME.pt like policy.pt of the original DPO code, or new "
                 "file NAME.gguf for llama.cpp and Ollama"))
      ->required()
      ->check(problem_of_out);
  takes_path(command.add_option("--config", arguments.config,
                                "config.json for a weights file or an adapter, or its folder"))
      ->type_name("CONFIG");
  add_gguf_options(command, arguments.dtype, arguments.modelfile, "unchanged; an adapter as GGUF: float32");
  command
      .add_option("--shard-size", arguments.shard_bytes,
                  "maximum size of a weights file, such as 5GB or 500MB (default: 5GB)")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true).description(""))
      ->check([](const std::string& bytes) { return bytes == "0" ? "must be at least 1 byte" : ""; });
}

}  // namespace dpo::commands
