// Loads models. The checkpoints of a run are such models too; what else they hold is read by src/run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/small_block.h"
#include "model/tables/adapter_config.h"
#include "model/tables/settings.h"
#include "model/tables/table.h"
#include "model/weights.h"

namespace dpo::checkpoint {

// An adapter over a model, without its weights.
struct AdapterInfo {
  model::AdapterConfig config;
  model::TensorTable table;
};

struct LoadedModel {
  model::ModelConfig config;
  model::TensorTable table;
  model::Weights weights;          // this rank's part of them
  std::filesystem::path folder;    // of config and tokenizer
  std::vector<std::string> notes;  // for the user
  std::string config_json;         // the text that `config` was read from
  // The other files of the folder, such as the tokenizer's, by name. Kept here, since the folder may be gone
  // when the model is saved.
  std::map<std::string, std::string> other_files;
  std::optional<AdapterInfo> adapter = {};  // if that is what is trained and saved, instead of the model
};

// Called often, from one thread at a time, with numbers of bytes.
using ProgressCallback = std::function<void(std::int64_t done, std::int64_t total)>;

// Called for each block when its weights are complete; what it returns takes their place. The block may be on
// any device. `stored`: what the files have in few bits; `weights` has its values.
using BlockCallback = std::function<model::BlockWeights(
    const model::Block& block, model::BlockWeights weights, model::StoredMatrices stored)>;

// The folder of a model: a path, or ORG/NAME[@REVISION] in the Hugging Face cache. A UserError says how to
// download it.
std::filesystem::path model_folder(const std::string& name_or_path);

// A model with its weights. `name_or_path`: as for model_folder, or the path of a config.json. `weights_file`
// (the original's policy.pt, a .bin, a .safetensors) replaces the folder's own weights. A rank reads only its
// part of the weights. With `each_block` one block after the other is read, so that only one is in memory
// before it. Matrices that are quantized in the files become values of `dtype`.
LoadedModel load_model(const std::string& name_or_path, at::ScalarType dtype, at::Device device,
                       const std::optional<std::filesystem::path>& weights_file = std::nullopt,
                       const ProgressCallback& progress = {}, const model::Layout& layout = {},
                       const BlockCallback& each_block = {});

// The config.json of such a model.
model::ModelConfig read_config(const std::string& name_or_path);

// The same without its weights.
LoadedModel open_model(const std::string& name_or_path);

// Whether a folder has a tokenizer; and makes the tokenizer and chat template of a folder those of a model.
bool has_tokenizer(const std::filesystem::path& folder);
void use_tokenizer(LoadedModel& model, const std::filesystem::path& folder);

// The dtype of the stored weights that are not quantized; if there are several, the one that they promote to.
at::ScalarType stored_dtype(const std::string& name_or_path,
                            const std::optional<std::filesystem::path>& weights_file = std::nullopt);

// The dtype in config.json; float32 if it has none.
at::ScalarType configured_dtype(const std::string& name_or_path);

// A new model with random weights, from a folder with a config.json or that file itself. The weights do not
// depend on the layout.
LoadedModel new_model(const std::string& name_or_path, at::ScalarType dtype, at::Device device,
                      std::uint64_t seed, const model::Layout& layout = {});

}  // namespace dpo::checkpoint
