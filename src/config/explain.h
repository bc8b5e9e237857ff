// What keys mean, for `dpo config` and for the end of a command's --help.
#pragma once

#include <string>
#include <vector>

#include "config/compose.h"

namespace dpo::config {

// The keys that matter most, each with its default and help.
std::string main_keys_text();

// Every key with its default and help.
std::string all_keys_text();

// A key (`lr`, `loss.beta`) or the keys of a section (`loss`): type, default, allowed values, help, and the
// value with its origin. A name that is neither is a UserError with the nearest key.
std::string explain(const std::string& name, const Resolved& resolved);

// Required keys, which a command that only shows keys does without.
std::vector<std::string> required_keys();

}  // namespace dpo::config
