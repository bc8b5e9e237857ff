#include "train/train_state.h"

#include <stdexcept>

#include "ops/devices.h"

namespace dpo::train {
namespace {

optim::OptimizerSettings optimizer_settings(const config::RunConfig& config, const config::Storage& storage,
                                            const shard::Mesh& mesh) {
  optim::OptimizerSettings settings{.epsilon = config.optimizer_eps,
                                    .weight_decay = config.weight_decay,
                                    .state = storage.state,
                                    .offload = storage.optimizer_on_host,
                                    .shard_rank = mesh.layout().shard_rank};
  if (config.optimizer_betas)
    settings.betas = std::pair(config.optimizer_betas->at(0), config.optimizer_betas->at(1));
  return settings;
}

}  // namespace

std::vector<at::Device> devices_of(const config::RunConfig& config, const comm::World& world) {
  const std::int64_t gpus = gpu_count();
  if (gpus == 0) return {at::kCPU};
  const auto gpu = [](std::int64_t index) {
    return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
  };
  if (!config::spreads_layers(config, world.all->size())) return {gpu(world.local_rank % gpus)};
  std::vector<at::Device> all;
  for (std::int64_t i = 0; i < gpus; ++i) all.push_back(gpu(i));
  return all;
}

shard::Mesh mesh_of(const config::RunConfig& config, const comm::World& world) {
  const at::Device device = devices_of(config, world).front();
  if (device.is_cuda()) use_gpu(device.index());
  return shard::make_mesh(world, config::mesh_of(config, world.all->size()), device);
}

at::ScalarType reference_dtype(const config::RunConfig& config) {
  return scalar_type_of(config::reference_dtype(config));
}

at::ScalarType matmul_dtype(const config::RunConfig& config) {
  return config.fp8 ? at::kFloat8_e4m3fn : train::reference_dtype(config);
}

std::optional<ops::QuantizedDtype> base_dtype(const config::RunConfig& config) {
  if (!config.adapter.base_dtype) return std::nullopt;
  switch (*config.adapter.base_dtype) {
    case config::BaseDtype::nf4: return ops::QuantizedDtype::nf4;
    case config::BaseDtype::int8: return ops::QuantizedDtype::int8;
    case config::BaseDtype::fp8: break;
  }
  return ops::QuantizedDtype::fp8;
}

model::PassOptions pass_options(const config::RunConfig& config) {
  if (config.activation_checkpointing.is_automatic()) throw std::logic_error("the plan decides this first");
  return {.entropy = false, .recomputed_layers = config.activation_checkpointing.count, .fp8 = config.fp8};
}

Policy make_policy(const config::RunConfig& config, const shard::Mesh& mesh, const model::Model& model,
                   model::Weights weights, const std::optional<shard::LocalModel>& base) {
  return {model, std::move(weights), storage_of(config, mesh), mesh, base};
}

TrainState make_train_state(const config::RunConfig& config, const shard::Mesh& mesh, Policy policy,
                            std::unique_ptr<Reference> reference) {
  TrainState state{.mesh = mesh,
                   .policy = std::move(policy),
                   .reference = std::move(reference),
                   .optimizer = nullptr,
                   .schedule = {config.lr, config.warmup_steps, config.lr_schedule},
                   .loss = config.loss,
                   .pass = pass_options(config),
                   .microbatches = config.gradient_accumulation_steps,
                   .max_gradient_norm = config.max_grad_norm,
                   .seed = static_cast<std::uint64_t>(config.seed),
                   .max_length = static_cast<std::size_t>(config.max_length),
                   .dropout = config.adapter.dropout};
  state.pass.router_aux_loss_coef = config.model.router_aux_loss_coef.value_or(0);
  state.optimizer = optim::make_optimizer(config.optimizer, state.policy.trained(),
                                          optimizer_settings(config, storage_of(config, mesh), mesh));
  return state;
}

}  // namespace dpo::train
