#pragma once

#include <string>
#include <vector>

#include "config/node.h"

namespace dpo::config {

// Replaces every ${other.key}, ${.sibling} and ${oc.env:NAME,default} in the tree by its value. What cannot
// be resolved is added to `problems` and left as a Broken node.
void interpolate(Node& root, std::vector<std::string>& problems);

// Leaves every ${...} as text, for files that may be somebody else's: they must not read the environment. A
// "\${", as escape_interpolations() writes it, becomes "${".
void keep_interpolations(Node& root);

// Text that interpolate() turns back into `text`: "${" is written "\${".
std::string escape_interpolations(const std::string& text);

}  // namespace dpo::config
