#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/field.h"

namespace dpo::config {

// Returns every key, in printing order. Parsing, defaults, checks, configs/config.yaml and
// docs/configuration.md all derive from this list.
const std::vector<Field>& schema();

// In a file, a list with this name is Hydra's defaults list, which chooses presets. A text there is the value
// of the key `defaults`.
inline constexpr const char* kDefaultsKey = "defaults";

const Field* find_field(std::string_view key);
std::vector<std::string> all_keys();

// sections() returns the maps of keys: model, loss, ... Sections that presets fill are groups.
const std::vector<std::string>& sections();
const std::vector<std::string>& groups();
bool is_section(std::string_view name);
bool is_group(std::string_view name);

Node default_of(const Field& field);

// True if `config` has the key's default.
bool has_default(const RunConfig& config, const Field& field);

}  // namespace dpo::config
