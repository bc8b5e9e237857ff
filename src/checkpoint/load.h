// Loads models, including those in checkpoints of runs. src/run reads the other files of such checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/quantized_block.h"
#include "model/spec/adapter_config.h"
#include "model/spec/settings.h"
#include "model/spec/table.h"
#include "model/weights.h"

namespace dpo::checkpoint {

// An adapter's config and table, without its weights.
struct AdapterInfo {
  model::AdapterConfig config;
  model::TensorTable table;
};

struct LoadedModel {
  model::ModelConfig config;
  model::TensorTable table;
  model::Weights weights;          // this rank's part
  std::filesystem::path folder;    // of config and tokenizer
  std::vector<std::string> notes;  // for the user
  std::string config_json;         // the text that `config` was read from
  // Other files of the folder by name, such as the tokenizer's. They are kept in memory because the folder
  // may be gone when the model is saved.
  std::map<std::string, std::string> other_files;
  std::optional<AdapterInfo> adapter = {};  // set if an adapter is trained and saved instead of the model
};

// Called often, from one thread at a time, with byte counts.
using ProgressCallback = std::function<void(std::int64_t done, std::int64_t total)>;

// Called for each block when its weights are complete. The returned weights replace them and may be on any
// device. `stored` has the matrices that are quantized in the files; `weights` has their values.
using BlockCallback = std::function<model::BlockWeights(
    const model::Block& block, model::BlockWeights weights, model::StoredMatrices stored)>;

// Returns the folder of a model: a path, or ORG/NAME[@REVISION] in the Hugging Face cache. Throws a UserError
// that explains how to download it if it is missing.
std::filesystem::path model_folder(const std::string& name_or_path);

// Loads a model with its weights. `name_or_path` is as for model_folder, or the path of a config.json.
// `weights_file` (the original's policy.pt, a .bin, a .safetensors) replaces the folder's own weights. A rank
// reads only its part of the weights. With `each_block`, blocks are read one by one, so that only one is in
// memory before the callback. Matrices that are quantized in the files become values of `dtype`.
LoadedModel load_model(const std::string& name_or_path, at::ScalarType dtype, at::Device device,
                       const std::optional<std::filesystem::path>& weights_file = std::nullopt,
                       const ProgressCallback& progress = {}, const model::Layout& layout = {},
                       const BlockCallback& each_block = {});

// Reads the config.json of a model that load_model can load.
model::ModelConfig read_config(const std::string& name_or_path);

// Opens a model without reading its weights.
LoadedModel open_model(const std::string& name_or_path);

// has_tokenizer returns true if a folder has a tokenizer. use_tokenizer replaces the tokenizer and chat
// template of a model with those of a folder.
bool has_tokenizer(const std::filesystem::path& folder);
void use_tokenizer(LoadedModel& model, const std::filesystem::path& folder);

// Returns the dtype of the stored weights that are not quantized. If there are several, returns the one that
// they promote to.
at::ScalarType stored_dtype(const std::string& name_or_path,
                            const std::optional<std::filesystem::path>& weights_file = std::nullopt);

// Returns bfloat16 or float16 if config.json names it, else float32.
at::ScalarType configured_dtype(const std::string& name_or_path);

// Creates a model with random weights from a folder with a config.json or from that file itself. The weights
// do not depend on the layout.
LoadedModel new_model(const std::string& name_or_path, at::ScalarType dtype, at::Device device,
                      std::uint64_t seed, const model::Layout& layout = {});

}  // namespace dpo::checkpoint
