#pragma once

#include <string>
#include <string_view>

#include "config/compose.h"

namespace dpo::config {

// Formats a value on one line: scalars, and lists and maps in YAML's flow style.
std::string inline_yaml(const Node& node);

// Formats the resolved configuration as YAML that compose accepts, with each value's origin as a comment.
std::string to_yaml(const Resolved& resolved);

// Formats the resolved configuration as one JSON object, without the origins.
std::string to_json(const Resolved& resolved);

// Returns configs/config.yaml: the defaults of every key that no preset sets, with its help.
std::string default_config_yaml();

// Returns docs/configuration.md.
std::string configuration_markdown();

}  // namespace dpo::config
