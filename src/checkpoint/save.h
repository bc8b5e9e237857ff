#pragma once

#include <cstdint>
#include <filesystem>

#include "checkpoint/load.h"
#include "checkpoint/parts.h"

namespace dpo::checkpoint {

inline constexpr std::uint64_t kShardBytes = 5'000'000'000;  // the default of --shard-size

// Writes a model as a folder that Hugging Face's libraries read: config.json, its weights as safetensors (in
// several files where one would be larger than `shard_bytes`), and of the model's own folder the tokenizer
// and generation_config.json. Something at `out` is a UserError; the folder is complete or absent.
void save_model(const std::filesystem::path& out, const LoadedModel& model, std::uint64_t shard_bytes,
                const Progress& progress = {});

// The same by ranks that hold a part each. The files that the weights of a table go into are known to all of
// them; one makes the folder's files, and then each writes its parts (write_parts).
std::vector<TensorFile> model_files(const model::TensorTable& table, at::ScalarType dtype,
                                    std::uint64_t shard_bytes);
void make_model_files(const std::filesystem::path& folder, const LoadedModel& model,
                      const std::vector<TensorFile>& files);

// Writes a model's weights as the original's policy.pt. It is complete or absent.
void save_policy(const std::filesystem::path& out, const LoadedModel& model, const Progress& progress = {});

}  // namespace dpo::checkpoint
