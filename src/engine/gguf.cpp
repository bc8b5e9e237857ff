#include "engine/gguf.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/output_files.h"
#include "base/quantity.h"
#include "checkpoint/save_gguf.h"
#include "commands/command.h"
#include "commands/progress.h"
#include "engine/loading.h"
#include "text/generation_config.h"
#include "text/ollama_template.h"

namespace dpo::engine {
namespace {

namespace fs = std::filesystem;
using checkpoint::GgufDtype;

GgufDtype gguf_dtype(const std::string& name) {
  if (name == "float32") return GgufDtype::f32;
  if (name == "float16") return GgufDtype::f16;
  if (name == "bfloat16") return GgufDtype::bf16;
  return checkpoint::gguf_dtype_named(name).value();
}

fs::path modelfile_of(const fs::path& out) { return out.parent_path() / "Modelfile"; }

// Returns the text that the runtime itself puts before a conversation, or "".
std::string added_bos(const text::Tokenizer& tokenizer) {
  const auto bos = tokenizer.bos();
  const std::vector<text::Token> added = tokenizer.encode("", /*special=*/true);
  return bos && !added.empty() && added.front() == *bos ? tokenizer.token_of(*bos) : "";
}

void write_modelfile(const fs::path& out, const checkpoint::LoadedModel& model, const fs::path& folder) {
  const text::Tokenizer tokenizer = text::Tokenizer::load(folder);
  std::string text = fmt::format("FROM ./{}\n", out.filename().string());
  if (const auto chat_template = text::find_chat_template(folder)) {
    if (const auto translated = text::ollama_template(*chat_template, added_bos(tokenizer)))
      text += fmt::format("\nTEMPLATE \"\"\"{}\"\"\"\n", *translated);
    else
      commands::print_notes(
          {fmt::format("{}: the chat template has more than text between messages, so that it cannot be "
                       "translated; Ollama "
                       "chooses the most similar of its own",
                       modelfile_of(out).string())});
    const auto generation = model.other_files.find(text::kGenerationConfig);
    if (generation != model.other_files.end())
      for (const text::Token end : text::eos_ids(generation->second))
        text += fmt::format("PARAMETER stop \"{}\"\n", tokenizer.token_of(end));
  }
  write_file(modelfile_of(out), text);
  fmt::print("{}: try 'ollama create NAME -f {}'\n", modelfile_of(out).string(), modelfile_of(out).string());
}

void print_result(const fs::path& out, const std::string& kind, GgufDtype dtype,
                  const checkpoint::SavedGguf& saved) {
  commands::print_notes(saved.notes);
  fmt::print("{}: {}, {} parameters, {}, {}\n", out.string(), kind, with_commas(saved.parameters),
             checkpoint::name_of(dtype), file_size(static_cast<std::int64_t>(saved.bytes)));
}

}  // namespace

void check_gguf_options(const fs::path& out, const std::string& dtype, bool modelfile) {
  if (commands::is_gguf(out.string())) {
    if (modelfile) check_absent(modelfile_of(out));
    return;
  }
  const std::string option = modelfile ? "--modelfile" : dtype.starts_with("q") ? "--dtype " + dtype : "";
  if (!option.empty())
    throw UserError(
        fmt::format("{}: only for a GGUF file, whose name ends in .gguf, not for {}", option, out.string()));
}

void write_gguf(const fs::path& out, const checkpoint::LoadedModel& model, const fs::path& tokenizer,
                const std::string& dtype, bool modelfile) {
  const GgufDtype written = gguf_dtype(dtype);
  const checkpoint::SavedGguf saved =
      checkpoint::save_gguf(out, model, written, tokenizer, shown_progress("writing"));
  print_result(out, model::info_of(model.config.shape.family).name, written, saved);
  if (modelfile) write_modelfile(out, model, tokenizer);
}

void write_adapter_gguf(const fs::path& out, const fs::path& adapter, const model::ModelConfig& config,
                        const std::string& dtype) {
  const GgufDtype written = gguf_dtype(dtype.empty() ? "float32" : dtype);
  if (checkpoint::has_blocks(written))
    throw UserError(fmt::format("--dtype {}: an adapter is written as float32, bfloat16 or float16", dtype));
  const checkpoint::SavedGguf saved =
      checkpoint::save_adapter_gguf(out, adapter, config, written, shown_progress("writing"));
  print_result(out, fmt::format("LoRA for {}", model::info_of(config.shape.family).name), written, saved);
}

}  // namespace dpo::engine
