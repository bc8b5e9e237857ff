#pragma once

#include <cstdint>

#include "model/spec/settings.h"
#include "model/weights.h"

namespace dpo::model {

// Initializes a new model as the Hugging Face implementation does. Every tensor has its own stream of random
// numbers, derived from the seed and its name and drawn as float32 on the CPU, so the model does not depend
// on dtype, device, threads or ranks: a rank draws what it holds.
void initialize(Weights& weights, const TensorTable& table, const ModelConfig& config, std::uint64_t seed,
                const Layout& layout = {});

}  // namespace dpo::model
