#pragma once

#include <cstdint>

#include "model/tables/settings.h"
#include "model/weights.h"

namespace dpo::model {

// Fills the weights of a new model as its family's original does. Every tensor has a series of random numbers
// of its own, made from the seed and its name, and drawn as float32 on the CPU: the same model comes out
// whatever the dtype, the device and the number of threads.
void initialize(Weights& weights, const TensorTable& table, const ModelConfig& config, std::uint64_t seed);

}  // namespace dpo::model
