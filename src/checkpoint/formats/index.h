#pragma once

#include <map>
#include <string>
#include <string_view>

namespace dpo::checkpoint {

// The index of a model in several files (model.safetensors.index.json, pytorch_model.bin.index.json): the
// name of each tensor to the file that holds it.
using WeightMap = std::map<std::string, std::string>;

// Parses an index. Invalid JSON, a duplicate tensor and a file outside the index's folder are UserErrors that
// begin with `origin`.
WeightMap parse_weight_index(std::string_view text, const std::string& origin);

}  // namespace dpo::checkpoint
