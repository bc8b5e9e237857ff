#pragma once

#include <string>
#include <vector>

#include "config/node.h"
#include "config/override.h"

namespace dpo::config {

// Applies one argument of the command line to the tree. Throws a UserError if it is not allowed: an unknown
// key without '+', or an existing one with it.
void apply(Node& tree, const Override& change);

}  // namespace dpo::config
