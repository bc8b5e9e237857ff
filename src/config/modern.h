#pragma once

#include <string>
#include <vector>

#include "config/compose.h"
#include "config/node.h"

namespace dpo::config {

// Sets the defaults of defaults=modern where nobody gave a value. `tree` has all keys. Those that depend on
// the data or the machine follow later (commands/modern_keys.h). `needs_data`: adds a problem if no data is
// given, since the original's data set is not what a user of today means.
void set_modern_defaults(Node& tree, bool needs_data, std::vector<std::string>& problems);

// The origin of those that depend on the data.
inline constexpr const char* kModernOfData = "defaults=modern, of the data";

// What defaults=modern has chosen, and how to choose otherwise: a note. Empty if it has chosen nothing, as in
// a run that is resumed.
std::string modern_note(const Resolved& resolved);

}  // namespace dpo::config
