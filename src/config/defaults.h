// Defaults that fit a run: a key that nobody gave may take another value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/compose.h"

namespace dpo::config {

// Returns whether the user gave this key on the command line, in a file or in the environment. Keys that a
// built-in preset sets do not count.
bool is_given(const Resolved& resolved, std::string_view key);
bool is_given(const Node& value);

// Returns whether the user gave this key a value other than its default.
bool is_changed(const Resolved& resolved, std::string_view key);

// Changes the default of a key that the user did not give. `reason`: the origin that 'dpo config' shows.
void set_default(Resolved& resolved, const std::string& key, const Node& value,
                 const std::string& reason = "default, as this run needs it");

}  // namespace dpo::config
