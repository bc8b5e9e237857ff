#pragma once

#include <string>
#include <vector>

#include "config/node.h"

namespace dpo::config {

// Replaces every ${other.key}, ${.sibling} and ${oc.env:NAME,default} in the tree with its value. Anything
// that cannot be resolved is added to `problems` and becomes a Broken node.
void interpolate(Node& root, std::vector<std::string>& problems);

// Keeps every ${...} as text, for files that may be another user's and must not read the environment. A
// "\${", as written by escape_interpolations(), becomes "${".
void keep_interpolations(Node& root);

// Escapes "${" as "\${", so that interpolate() restores `text`.
std::string escape_interpolations(const std::string& text);

}  // namespace dpo::config
