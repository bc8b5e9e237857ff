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

bool is_adapter(const std::filesystem::path& folder);

// The folder of an adapter: a path, or ORG/NAME[@REVISION] in the Hugging Face cache. A UserError if it is
// not one.
std::filesystem::path adapter_folder(const std::string& name_or_path);
model::AdapterConfig read_adapter_config(const std::filesystem::path& folder);

// How an adapter names its model: a folder without links, which may point elsewhere later; or ORG/NAME.
std::string base_name(const std::string& name_or_path);

// Compares the model that an adapter was made for with the one that it is used with. If it is another one, a
// UserError, in which `key` names where the model was given; a note if it is not on this machine, else "".
std::string check_base(const std::filesystem::path& adapter, const std::string& base,
                       const std::string& model, const std::string& key);

// The adapter in a folder, over a model with this table: the tensors in its file say which modules have LoRA.
// Missing, unknown and wrongly shaped tensors are reported in one UserError.
AdapterInfo open_adapter(const std::filesystem::path& folder, const model::TensorTable& model);

// Fills `weights`, this rank's part of the adapter's table.
void read_adapter(const std::filesystem::path& folder, const AdapterInfo& adapter, model::Weights& weights,
                  const model::Layout& layout = {});

// Both, for a process that holds the whole model.
model::Weights load_adapter(const std::filesystem::path& folder, const model::TensorTable& model,
                            at::ScalarType dtype, at::Device device);

// The table with the names that PEFT's files have.
model::TensorTable peft_table(const model::TensorTable& adapter);

// The files of an adapter's weights, which ranks write with write_parts by the names of peft_table; and all
// other files of its folder, which one rank writes first. `other_files`: by name, such as the tokenizer's.
std::vector<TensorFile> adapter_files(const model::TensorTable& table, at::ScalarType dtype);
void make_adapter_files(const std::filesystem::path& folder, const AdapterInfo& adapter,
                        const model::TensorTable& model,
                        const std::map<std::string, std::string>& other_files,
                        const std::vector<TensorFile>& files);

}  // namespace dpo::checkpoint
