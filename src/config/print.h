#pragma once

#include <string>
#include <string_view>

#include "config/compose.h"

namespace dpo::config {

// A value on one line: scalars and, in YAML's flow form, lists and maps.
std::string inline_yaml(const Node& node);

// The resolved configuration as YAML that compose accepts again, each value with its origin as a comment.
std::string to_yaml(const Resolved& resolved);

// The same as one JSON object, without the origins.
std::string to_json(const Resolved& resolved);

// configs/config.yaml: the defaults of every key that no preset gives, with its help.
std::string default_config_yaml();

// docs/configuration.md.
std::string configuration_markdown();

}  // namespace dpo::config
