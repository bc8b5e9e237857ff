// Adapters over a model that this rank holds a part of.
#pragma once

#include <cstdint>

#include "shard/local_model.h"

namespace dpo::shard {

// The model under an adapter, of this rank's weights: with the products that the adapted model computes.
LocalModel frozen_base(const model::ModelConfig& config, model::Weights weights,
                       const model::TensorTable& adapter, const Mesh& mesh);

// This rank's part of a new adapter, in a dtype of its own: A is random, B zero, magnitudes are the norms of
// the model's rows, and whole modules copies of the model's. It does not depend on the mesh.
model::Weights new_adapter(const model::TensorTable& table, const LocalModel& base, at::ScalarType dtype,
                           std::uint64_t seed, const Mesh& mesh);

}  // namespace dpo::shard
