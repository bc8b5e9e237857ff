#pragma once

#include <map>
#include <string>
#include <string_view>

namespace dpo::checkpoint {

// The index of a model in several files (model.safetensors.index.json, pytorch_model.bin.index.json): the
// name of each tensor to the file that holds it.
using WeightMap = std::map<std::string, std::string>;

// Reads the text of an index. What is not one, a tensor that stands there twice and a file outside of the
// index's folder are UserErrors that begin with `origin`.
WeightMap parse_weight_index(std::string_view text, const std::string& origin);

}  // namespace dpo::checkpoint
