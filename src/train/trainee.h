#pragma once

#include <memory>
#include <vector>

#include "comm/world.h"
#include "config/run_config.h"
#include "train/step.h"

namespace dpo::train {

// The devices that this process computes on: several only where it is the only one and spreads the layers.
std::vector<at::Device> devices_of(const config::RunConfig& config, const comm::World& world);
shard::Mesh mesh_of(const config::RunConfig& config, const comm::World& world);

// In which types a run keeps and computes its policy.
PolicyPrecision precision_of(const config::RunConfig& config, const shard::Mesh& mesh);

// In which type the reference is computed, and how.
at::ScalarType reference_type(const config::RunConfig& config);
model::PassOptions pass_of(const config::RunConfig& config);

// A policy with these weights (in the stored type), and what its configuration asks for around it.
Trainee make_trainee(const config::RunConfig& config, const shard::Mesh& mesh, const model::Model& model,
                     model::Weights weights, std::unique_ptr<Reference> reference);

loss::Options loss_options(const config::LossConfig& config);

}  // namespace dpo::train
