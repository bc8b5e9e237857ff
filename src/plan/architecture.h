#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/spec/quantization.h"
#include "model/spec/shape.h"

namespace dpo::plan {

struct Architecture {
  model::ModelShape shape;
  std::string origin;                                    // path of its config.json
  std::string config_json;                               // text of that file
  std::optional<model::Quantization> quantization = {};  // of the weights next to it
};

// Returns the models whose sizes are shipped in configs/architecture/.
std::vector<std::string> built_in_models();

// True if the sizes of a model are shipped in configs/architecture/.
bool is_built_in(const std::string& name);

// Finds the sizes of the model that `model.name_or_path` names: in a local folder, in the Hugging Face cache,
// or in the figures shipped in configs/architecture/. Downloads nothing.
Architecture find_architecture(const std::string& name_or_path);

// Returns the sizes from the shipped figures alone, even if something else has that name; `name` is one of
// built_in_models().
Architecture built_in_architecture(const std::string& name);

// Reads the sizes from one config.json.
Architecture read_architecture(const std::filesystem::path& config_json);

}  // namespace dpo::plan
