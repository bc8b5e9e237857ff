#pragma once

#include <string>
#include <string_view>

#include "config/node.h"

namespace dpo::config {

inline constexpr std::size_t kLargestFile = 1u << 20;  // bytes of a configuration file

// A YAML document whose top level is a map (an empty document is an empty map). Anchors, aliases and merge
// keys are resolved; every node's origin is of this kind, at `name`:line. Throws a UserError that names
// `name`:line:column for whatever is not such a document, and for one that would nest too deeply or expand to
// too many values.
Node read_yaml(std::string_view text, const std::string& name, Origin::Kind kind = Origin::Kind::File);

// The same for built-in text, whose values count as defaults.
Node read_default_yaml(std::string_view text);

}  // namespace dpo::config
