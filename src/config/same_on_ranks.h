#pragma once

#include <map>
#include <string>

#include "config/run_config.h"

namespace dpo::config {

// Returns the values of all keys that must be the same on every rank. Ranks with different values would wait
// for operations that the others never begin, or compute parts of different runs.
std::map<std::string, std::string> same_on_ranks(const RunConfig& config);

}  // namespace dpo::config
