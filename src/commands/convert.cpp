#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "commands/commands.h"

namespace dpo::commands {
namespace {

// Reports an OUT that has the extension of a weights file but would become a folder, because only .pt is a
// file.
std::string problem_of_out(const std::string& out) {
  std::string type = std::filesystem::path(out).extension().string();
  std::ranges::transform(type, type.begin(), [](unsigned char c) { return std::tolower(c); });
  if (type == ".gguf")
    return fmt::format(
        "{}: GGUF is not written; convert into a folder, which convert_hf_to_gguf.py of llama.cpp reads",
        out);
  for (const char* const weights : {".safetensors", ".bin", ".pth", ".ckpt"})
    if (type == weights) return fmt::format("{}: expected a folder, or a file NAME.pt", out);
  return "";
}

}  // namespace

void describe(CLI::App& command, ConvertArguments& arguments) {
  command.description("write a model's weights in another format or dtype");
  takes_path(command.add_option(
                 "IN", arguments.in,
                 "model folder, model name ORG/NAME on the Hugging Face hub, or weights file with --config"))
      ->required();
  takes_path(command.add_option(
                 "OUT", arguments.out,
                 "new Hugging Face folder, or new file NAME.pt like policy.pt of the original DPO code"))
      ->required()
      ->check(problem_of_out);
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
