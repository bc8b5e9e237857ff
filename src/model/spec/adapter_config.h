// Reads and writes PEFT's adapter_config.json.
#pragma once

#include <string>
#include <string_view>

#include "model/spec/adapter.h"

namespace dpo::model {

struct AdapterConfig {
  AdapterSettings settings;
  std::string base;  // the model's folder, or ORG/NAME[@REVISION]; empty if unknown
};

// Parses adapter_config.json. Throws a UserError that begins with `origin` for invalid JSON, another kind of
// adapter, or a setting that changes the matmul in a way that is not supported.
AdapterConfig parse_adapter_config(std::string_view text, const std::string& origin);

// Returns the text of an adapter_config.json that PEFT reads, for an adapter of this model.
std::string text_of(const AdapterConfig& config, const TensorTable& model);

}  // namespace dpo::model
