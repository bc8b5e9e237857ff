#pragma once

#include <string>
#include <vector>

#include "config/compose.h"
#include "config/node.h"

namespace dpo::config {

// Sets the defaults of defaults=modern for keys in `tree`, which has all keys, that the user did not give.
// Defaults that depend on the data or the machine follow later (commands/modern_keys.h). If `needs_data`,
// adds a problem if no data is given, because the original's default data set is not what the user expects.
void set_modern_defaults(Node& tree, bool needs_data, std::vector<std::string>& problems);

// Origin of defaults that depend on the data.
inline constexpr const char* kModernOfData = "defaults=modern, of the data";

// Returns a note on the values chosen by defaults=modern and how to change them. Empty if it chose none, as
// in a run that is resumed.
std::string modern_note(const Resolved& resolved);

}  // namespace dpo::config
