#pragma once

#include <map>
#include <string>
#include <string_view>

namespace dpo::checkpoint {

// Maps each tensor of a model in several files to its file. Stored as model.safetensors.index.json or
// pytorch_model.bin.index.json.
using WeightMap = std::map<std::string, std::string>;

// Parses an index. Throws a UserError that begins with `origin` for invalid JSON, a duplicate tensor, or a
// file outside the index's folder.
WeightMap parse_weight_index(std::string_view text, const std::string& origin);

}  // namespace dpo::checkpoint
