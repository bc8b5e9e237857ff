#pragma once

#include <string>

#include "data/examples.h"

namespace dpo::data {

// SHA-256 of the tokens of all examples after truncation, and of their weights and margins.
std::string digest_of(const Examples& examples);

}  // namespace dpo::data
