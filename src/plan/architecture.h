#pragma once

#include <string>

#include "model/tables/shape.h"

namespace dpo::plan {

struct Architecture {
  model::ModelShape shape;
  std::string origin;       // path of its config.json
  std::string config_json;  // text of that file
};

// The sizes of the model that `model.name_or_path` names: from a local folder, from the Hugging Face cache,
// or from the figures shipped in configs/architecture/. Nothing is downloaded.
Architecture find_architecture(const std::string& name_or_path);

}  // namespace dpo::plan
