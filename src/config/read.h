#pragma once

#include <string>
#include <vector>

#include "config/node.h"
#include "config/run_config.h"

namespace dpo::config {

// Adds missing keys with their defaults. Keys of a loss are added once the loss is known.
void fill_defaults(Node& tree);

// Returns the typed configuration. Unknown keys, wrong types, values out of range, unset keys and
// contradictions are added to `problems`, and unused added keys to `notes`.
RunConfig read_tree(const Node& tree, std::vector<std::string>& problems, std::vector<std::string>& notes);

// Converts a typed configuration to a tree with every key that applies to its loss.
Node write_tree(const RunConfig& config);

}  // namespace dpo::config
