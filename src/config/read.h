#pragma once

#include <string>
#include <vector>

#include "config/node.h"
#include "config/run_config.h"

namespace dpo::config {

// Adds the keys that are not in the tree, with their defaults; those of a loss once the loss is known.
void fill_defaults(Node& tree);

// The typed configuration. Unknown keys, wrong types, values out of range, unset keys and contradictions are
// added to `problems`; unused keys that were added, to `notes`.
RunConfig read_tree(const Node& tree, std::vector<std::string>& problems, std::vector<std::string>& notes);

// The tree of a typed configuration, with every key that applies to its loss.
Node write_tree(const RunConfig& config);

}  // namespace dpo::config
