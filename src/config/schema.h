#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"

namespace dpo::config {

// Every key, in the order of printing. Parsing, defaults, checks, configs/config.yaml and
// docs/configuration.md all derive from this list.
const std::vector<Field>& schema();

// In a file, a list of this name is Hydra's, and says which presets apply.
inline constexpr const char* kDefaultsKey = "defaults";

const Field* find_field(std::string_view key);
std::vector<std::string> all_keys();

// The maps of keys: model, loss, ... Those that presets fill are groups.
const std::vector<std::string>& sections();
const std::vector<std::string>& groups();
bool is_section(std::string_view name);
bool is_group(std::string_view name);

Node default_of(const Field& field);

}  // namespace dpo::config
