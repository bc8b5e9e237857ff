// Adapters as PEFT stores them: folders with adapter_config.json and adapter_model.safetensors.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "checkpoint/tensor_parts.h"
#include "model/tables/layout.h"
#include "model/weights.h"

namespace dpo::checkpoint {

// What a tensor's name begins with in the files, before the name in the table.
inline constexpr const char* kAdapterPrefix = "base_model.model.";

bool is_adapter(const std::filesystem::path& folder);

// The adapter in a folder, over a model with this table: the tensors in its file say which modules have LoRA.
// Missing, unknown and wrongly shaped tensors are reported in one UserError.
AdapterInfo open_adapter(const std::filesystem::path& folder, const model::TensorTable& model);

// Fills `weights`, this rank's part of the adapter's table.
void read_adapter(const std::filesystem::path& folder, const AdapterInfo& adapter, model::Weights& weights,
                  const model::Layout& layout = {});

// Both, for a process that holds the whole model.
model::Weights load_adapter(const std::filesystem::path& folder, const model::TensorTable& model,
                            at::ScalarType dtype, at::Device device);

// The files of an adapter's weights, which ranks write with write_parts and kAdapterPrefix; and all other
// files of its folder, which one rank writes first. `other_files`: by name, such as the tokenizer's.
std::vector<TensorFile> adapter_files(const model::TensorTable& table, at::ScalarType dtype);
void make_adapter_files(const std::filesystem::path& folder, const AdapterInfo& adapter,
                        const model::TensorTable& model,
                        const std::map<std::string, std::string>& other_files,
                        const std::vector<TensorFile>& files);

}  // namespace dpo::checkpoint
