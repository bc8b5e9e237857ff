#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "comm/world.h"
#include "config/run_config.h"
#include "loss/loss.h"
#include "ops/quantized_matrix.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/policy.h"
#include "train/reference.h"

namespace dpo::train {

struct RunningMean {
  double sum = 0;
  std::int64_t count = 0;

  void add(double value) { sum += value, ++count; }
  double value() const { return count > 0 ? sum / static_cast<double>(count) : 0; }
};

// Everything that an update changes or reads.
struct TrainState {
  shard::Mesh mesh;  // of the ranks that train together
  Policy policy;
  std::unique_ptr<Reference> reference;
  std::unique_ptr<optim::Optimizer> optimizer;
  optim::Schedule schedule;
  config::LossConfig loss;
  model::PassOptions pass;
  std::int64_t microbatches = 1;
  std::optional<double> max_gradient_norm = 10;  // null: no clipping
  RunningMean rewards{};                         // of all responses that were trained on
  std::uint64_t seed = 0;
  std::size_t max_length = std::numeric_limits<std::size_t>::max();  // tokens of a prompt and a response
  double dropout = 0;  // of an adapter, in passes that compute gradients
};

// Makes a policy with these weights, which are in the stored dtype. `base` is the model that they are an
// adapter of.
Policy make_policy(const config::RunConfig& config, const shard::Mesh& mesh, const model::Model& model,
                   model::Weights weights, const std::optional<shard::LocalModel>& base = std::nullopt);

// Makes the optimizer, schedule and loss of the configuration.
TrainState make_train_state(const config::RunConfig& config, const shard::Mesh& mesh, Policy policy,
                            std::unique_ptr<Reference> reference);

// Returns the devices of this process: several only if it is the only process and spreads the layers.
std::vector<at::Device> devices_of(const config::RunConfig& config, const comm::World& world);
shard::Mesh mesh_of(const config::RunConfig& config, const comm::World& world);

at::ScalarType reference_dtype(const config::RunConfig& config);
// Returns the format of an adapter run's frozen matrices, if they are quantized.
std::optional<ops::QuantizedDtype> base_dtype(const config::RunConfig& config);
// Returns the dtype of the reference's matmuls: e4m3 with fp8.
at::ScalarType matmul_dtype(const config::RunConfig& config);
model::PassOptions pass_options(const config::RunConfig& config);

}  // namespace dpo::train
