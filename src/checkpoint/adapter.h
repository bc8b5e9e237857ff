// Reads and writes adapters in PEFT's format: folders with adapter_config.json and adapter_model.safetensors.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "checkpoint/tensor_parts.h"
#include "model/spec/layout.h"
#include "model/weights.h"

namespace dpo::checkpoint {

bool is_adapter(const std::filesystem::path& folder);

// Returns the folder of an adapter: a path, or ORG/NAME[@REVISION] in the Hugging Face cache. Throws a
// UserError if it is not an adapter.
std::filesystem::path adapter_folder(const std::string& name_or_path);
model::AdapterConfig read_adapter_config(const std::filesystem::path& folder);

// Returns the name by which an adapter refers to its model: ORG/NAME, or a folder with symbolic links
// resolved, because links may point elsewhere later.
std::string base_name(const std::string& name_or_path);

// Compares the model that an adapter was made for with the one that it is used with. Throws a UserError if
// they differ, in which `key` names where the model was given. Returns a note if a model is not on this
// machine, else "".
std::string check_base(const std::filesystem::path& adapter, const std::string& base,
                       const std::string& model, const std::string& key);

// Opens the adapter in a folder, for a model with this table. The tensors in its file determine which modules
// have LoRA. All missing, unknown and wrongly shaped tensors are reported in one UserError.
AdapterInfo open_adapter(const std::filesystem::path& folder, const model::TensorTable& model);

// Fills `weights` with this rank's part of the adapter's table.
void read_adapter(const std::filesystem::path& folder, const AdapterInfo& adapter, model::Weights& weights,
                  const model::Layout& layout = {});

// Opens and reads an adapter, for a process that holds the whole model.
model::Weights load_adapter(const std::filesystem::path& folder, const model::TensorTable& model,
                            at::ScalarType dtype, at::Device device);

// Returns the table with the names used in PEFT's files.
model::TensorTable peft_table(const model::TensorTable& adapter);

// adapter_files returns the files of an adapter's weights, which ranks write with write_parts under the names
// of peft_table. make_adapter_files writes all other files of the folder and is called first, by one rank.
// `other_files` maps names to contents, such as the tokenizer's.
std::vector<TensorFile> adapter_files(const model::TensorTable& table, at::ScalarType dtype);
void make_adapter_files(const std::filesystem::path& folder, const AdapterInfo& adapter,
                        const model::TensorTable& model,
                        const std::map<std::string, std::string>& other_files,
                        const std::vector<TensorFile>& files);

}  // namespace dpo::checkpoint
