#pragma once

#include <cstdint>
#include <filesystem>

#include "checkpoint/load.h"

namespace dpo::checkpoint {

// Writes a model as a folder that Hugging Face's libraries read: config.json, its weights as safetensors (in
// several files where one would be larger than `shard_bytes`), and of the model's own folder the tokenizer
// and generation_config.json. Something at `out` is a UserError; the folder is complete or absent.
void save_model(const std::filesystem::path& out, const LoadedModel& model, std::uint64_t shard_bytes,
                const Progress& progress = {});

// Writes a model's weights as the original's policy.pt. It is complete or absent.
void save_policy(const std::filesystem::path& out, const LoadedModel& model, const Progress& progress = {});

}  // namespace dpo::checkpoint
