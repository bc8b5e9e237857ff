// Defaults that fit a run: a key that nobody gave may take another value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/compose.h"

namespace dpo::config {

// Whether the user gave this key: on the command line, in a file or in the environment. Those that a built-in
// preset sets do not count.
bool is_given(const Resolved& resolved, std::string_view key);

// Whether the user gave this key another value than its default.
bool is_changed(const Resolved& resolved, std::string_view key);

// Gives a key that the user did not give another default.
void set_default(Resolved& resolved, const std::string& key, std::int64_t value);

}  // namespace dpo::config
