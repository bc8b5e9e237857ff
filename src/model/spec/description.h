#pragma once

#include <map>
#include <string>

#include "model/spec/settings.h"

namespace dpo::model {

// The settings of a config.json that affect the computation, by key and value. Names and order of the file's
// own keys do not matter. Settings that compute nothing (the context, how a new model is initialized) or that
// the weights show (whether embeddings are tied, how files are quantized) are left out.
using Description = std::map<std::string, std::string>;
Description describe(const ModelConfig& config);

// Returns the entries in which two descriptions differ, such as "rope_theta was 10000, is 500000", joined by
// "; ". Empty if there are none. An entry that only one of them has is not compared, since another version
// wrote that description.
std::string differences(const Description& before, const Description& now);

}  // namespace dpo::model
