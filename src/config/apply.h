#pragma once

#include <string>
#include <vector>

#include "config/node.h"
#include "config/override.h"

namespace dpo::config {

// Applies one argument of the command line to the tree. What it may not do (an unknown key without '+', an
// existing one with it) is a UserError.
void apply(Node& tree, const Override& change);

}  // namespace dpo::config
