#pragma once

#include "model/weights.h"

namespace dpo::checkpoint {

// Weights as model::make_weights lays them out, whose numbers are still to come. On the CPU their memory is
// not touched yet, so that whoever fills it first does not go over it twice, and is asked for in large pages.
model::Weights allocate_weights(const model::TensorTable& table, at::ScalarType dtype, at::Device device,
                                const model::Layout& layout);

}  // namespace dpo::checkpoint
