#pragma once

#include <string>

#include "model/weights.h"
#include "shard/mesh.h"

namespace dpo::shard {

// 128 bits, in hexadecimal, of a model's weights: the same however ranks divide it, and other bits for any
// other number in any place. Not made to withstand someone who wants two models to look alike.
std::string fingerprint_of(const model::TensorTable& table, const model::Weights& parts, const Mesh& mesh);

}  // namespace dpo::shard
