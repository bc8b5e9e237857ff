#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/formats/gguf.h"
#include "checkpoint/load.h"

namespace dpo::checkpoint {

struct SavedGguf {
  std::uint64_t bytes = 0;  // of the file
  std::int64_t parameters = 0;
  std::vector<std::string> notes;  // for the user
};

// Writes a model as a GGUF file for llama.cpp, with the tokenizer and chat template of the folder
// `tokenizer`. Norms, biases and other small tensors are f32, and rows that are no multiple of a block are
// f16. With q4_0 the head is q8_0. Generation stops at the eos_token_id of the model's
// generation_config.json. The file is complete or absent. Throws a UserError if `out` exists, or that names
// what llama.cpp does not support.
SavedGguf save_gguf(const std::filesystem::path& out, const LoadedModel& model, GgufDtype dtype,
                    const std::filesystem::path& tokenizer, const ProgressCallback& progress = {});

// Writes the LoRA adapter in a folder, for a model with this config. `dtype` has no blocks.
SavedGguf save_adapter_gguf(const std::filesystem::path& out, const std::filesystem::path& adapter,
                            const model::ModelConfig& config, GgufDtype dtype,
                            const ProgressCallback& progress = {});

}  // namespace dpo::checkpoint
