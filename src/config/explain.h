// Explains keys, for `dpo config` and for the end of a command's --help.
#pragma once

#include <string>
#include <vector>

#include "config/compose.h"

namespace dpo::config {

// Returns the most important keys, each with its default and help.
std::string main_keys_text();

// Returns every key with its default and help.
std::string all_keys_text();

// Explains a key (`lr`, `loss.beta`) or the keys of a section (`loss`): type, default, allowed values, help,
// and the value with its origin. Throws a UserError with the nearest key if the name is neither.
std::string explain(const std::string& name, const Resolved& resolved);

// Returns the required keys, which a command that only shows keys does not need.
std::vector<std::string> required_keys();

}  // namespace dpo::config
