#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/tables/settings.h"
#include "model/tables/table.h"
#include "model/weights.h"

namespace dpo::checkpoint {

struct LoadedModel {
  model::ModelConfig config;
  model::TensorTable table;
  model::Weights weights;          // what a rank holds of them
  std::filesystem::path folder;    // where config and tokenizer lie
  std::vector<std::string> notes;  // for the user
  std::string config_json;         // the text that `config` was read from
  // What else is in the folder, by name: the tokenizer and the like. Kept, since the folder may be gone when
  // the model is saved.
  std::map<std::string, std::string> companions;
};

// How many bytes of all are done; called often, from one thread at a time.
using Progress = std::function<void(std::int64_t done, std::int64_t all)>;

// The folder of a model: a path, or ORG/NAME in the local Hugging Face cache; else a UserError that says how
// to fetch it.
std::filesystem::path model_folder(const std::string& name_or_path);

// A model with its weights. `name_or_path` is what model_folder takes, or the path of a config.json.
// `weights_file`: instead of the folder's own weights, this file (the original's policy.pt, a .bin, a
// .safetensors). Of the weights a rank reads only what it holds.
LoadedModel load_model(const std::string& name_or_path, at::ScalarType dtype, at::Device device,
                       const std::optional<std::filesystem::path>& weights_file = std::nullopt,
                       const Progress& progress = {}, const model::Layout& layout = {});

// The dtype in which the weights are stored; of several, one that holds them all.
at::ScalarType stored_dtype(const std::string& name_or_path,
                            const std::optional<std::filesystem::path>& weights_file = std::nullopt);

// The dtype that a config.json names; float32 where it names none.
at::ScalarType configured_dtype(const std::string& name_or_path);

// A new model with random weights, from a folder with a config.json or that file itself.
// It is the same whatever the layout.
LoadedModel new_model(const std::string& name_or_path, at::ScalarType dtype, at::Device device,
                      std::uint64_t seed, const model::Layout& layout = {});

}  // namespace dpo::checkpoint
