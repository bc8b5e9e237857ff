#pragma once

#include <string>
#include <string_view>

#include "config/node.h"

namespace dpo::config {

inline constexpr std::size_t kLargestFile = 1u << 20;  // bytes of a configuration file

// Parses a YAML document whose top level is a map (an empty document is an empty map). Anchors, aliases and
// merge keys are resolved. Every node has an origin of this kind, at `name`:line. Throws a UserError that
// names `name`:line:column if the text is no such document, nests too deeply or expands to too many values.
Node read_yaml(std::string_view text, const std::string& name, Origin::Kind kind = Origin::Kind::File);

// Parses built-in text, whose values count as defaults.
Node read_default_yaml(std::string_view text);

}  // namespace dpo::config
