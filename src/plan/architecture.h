#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/tables/quantization.h"
#include "model/tables/shape.h"

namespace dpo::plan {

struct Architecture {
  model::ModelShape shape;
  std::string origin;                                    // path of its config.json
  std::string config_json;                               // text of that file
  std::optional<model::Quantization> quantization = {};  // of the weights beside it
};

// The models whose sizes are shipped in configs/architecture/.
std::vector<std::string> built_in_models();

// Whether the sizes of a model are shipped in configs/architecture/.
bool is_built_in(const std::string& name);

// The sizes of the model that `model.name_or_path` names: from a local folder, from the Hugging Face cache,
// or from the figures shipped in configs/architecture/. Downloads nothing.
Architecture find_architecture(const std::string& name_or_path);

// The same from the shipped figures alone, whatever else has that name; `name` is one of built_in_models().
Architecture built_in_architecture(const std::string& name);

// The same of one config.json.
Architecture read_architecture(const std::filesystem::path& config_json);

}  // namespace dpo::plan
