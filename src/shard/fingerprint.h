#pragma once

#include <string>

#include "model/weights.h"
#include "shard/mesh.h"

namespace dpo::shard {

// A 128-bit hash of a model's weights, or of an adapter's, in hexadecimal: it does not depend on the mesh,
// and changes with any element and with the scale of LoRA. Not cryptographic.
std::string fingerprint_of(const model::TensorTable& table, const model::Weights& parts, const Mesh& mesh);

}  // namespace dpo::shard
