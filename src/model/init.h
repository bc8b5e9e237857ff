#pragma once

#include <cstdint>

#include "model/tables/settings.h"
#include "model/weights.h"

namespace dpo::model {

// Fills the weights of a new model as its family's original does. Every tensor has a series of random numbers
// of its own, made from the seed and its name, and drawn as float32 on the CPU: the same model comes out
// whatever the dtype, the device, the number of threads, and the ranks that it is divided over: a rank draws
// what it holds.
void initialize(Weights& weights, const TensorTable& table, const ModelConfig& config, std::uint64_t seed,
                const Layout& layout = {});

}  // namespace dpo::model
