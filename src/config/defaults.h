// Sets defaults that suit a run. They only change keys that the user did not give.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/compose.h"

namespace dpo::config {

// Returns true if the user gave this key on the command line, in a file or in the environment. Keys set by a
// built-in preset do not count.
bool is_given(const Resolved& resolved, std::string_view key);
bool is_given(const Node& value);

// Returns true if the user gave this key a value other than its default.
bool is_changed(const Resolved& resolved, std::string_view key);

// Changes the default of a key that the user did not give. `reason` is the origin that 'dpo config' shows.
void set_default(Resolved& resolved, const std::string& key, const Node& value,
                 const std::string& reason = "default, adapted to this run");

}  // namespace dpo::config
