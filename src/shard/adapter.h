// Creates adapters over a model that this rank holds a part of.
#pragma once

#include <cstdint>

#include "shard/local_model.h"

namespace dpo::shard {

// Returns the frozen model under an adapter, from this rank's weights. Its layers run the same matmuls as the
// adapted model.
LocalModel frozen_base(const model::ModelConfig& config, model::Weights weights,
                       const model::TensorTable& adapter, const Mesh& mesh,
                       config::Reshard reshard = config::Reshard::pass);

// Returns this rank's part of a new adapter in `dtype`. A is random, B is zero, magnitudes are the norms of
// the model's rows, and whole modules are copies of the model's. The values do not depend on the mesh.
model::Weights new_adapter(const model::TensorTable& table, const LocalModel& base, at::ScalarType dtype,
                           std::uint64_t seed, const Mesh& mesh);

}  // namespace dpo::shard
