#pragma once

#include <string>
#include <vector>

#include "config/node.h"
#include "config/override.h"

namespace dpo::config {

// Does to the tree what one word of the command line asks. What it may not do (an unknown key without '+',
// an existing one with it) is thrown as a UserError.
void apply(Node& tree, const Override& change);

}  // namespace dpo::config
