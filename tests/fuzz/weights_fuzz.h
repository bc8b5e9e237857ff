#pragma once

#include <string_view>

// Tries one input of the target that is linked; aborts if a property does not hold. True if the input was
// accepted.
bool try_weights_input(std::string_view input);
