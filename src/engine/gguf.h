#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/load.h"

namespace dpo::engine {

// Throws a UserError if --dtype or --modelfile need a GGUF file, but `out` is not one, or if the Modelfile
// exists.
void check_gguf_options(const std::filesystem::path& out, const std::string& dtype, bool modelfile);

// Writes a model as GGUF, and a Modelfile if requested, and prints their names. `dtype` is a name of --dtype.
void write_gguf(const std::filesystem::path& out, const checkpoint::LoadedModel& model,
                const std::filesystem::path& tokenizer, const std::string& dtype, bool modelfile);

// Writes an adapter for a model with this config as GGUF. An empty `dtype` is float32.
void write_adapter_gguf(const std::filesystem::path& out, const std::filesystem::path& adapter,
                        const model::ModelConfig& config, const std::string& dtype);

}  // namespace dpo::engine
