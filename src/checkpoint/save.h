#pragma once

#include <cstdint>
#include <filesystem>

#include "checkpoint/load.h"
#include "checkpoint/tensor_parts.h"

namespace dpo::checkpoint {

// Writes a model as a Hugging Face folder: config.json, the weights as safetensors (in several files if one
// would be larger than `shard_bytes`), and the tokenizer and generation_config.json of the model's own
// folder. The folder is complete or absent. Throws a UserError if `out` exists.
void save_model(const std::filesystem::path& out, const LoadedModel& model, std::uint64_t shard_bytes,
                const ProgressCallback& progress = {});

// Functions for saving a model of which each rank holds a part. All ranks compute the files with model_files.
// One rank creates the folder with make_model_files, then each writes its parts with write_parts.
std::vector<TensorFile> model_files(const model::TensorTable& table, at::ScalarType dtype,
                                    std::uint64_t shard_bytes);
void make_model_files(const std::filesystem::path& folder, const LoadedModel& model,
                      const std::vector<TensorFile>& files);

// Writes a model's weights as the original's policy.pt. The file is complete or absent.
void save_policy(const std::filesystem::path& out, const LoadedModel& model,
                 const ProgressCallback& progress = {});

}  // namespace dpo::checkpoint
