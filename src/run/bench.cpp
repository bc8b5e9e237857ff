#include "run/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "base/error.h"
#include "comm/throttled.h"
#include "data/examples.h"
#include "model/quantized_block.h"
#include "ops/devices.h"
#include "plan/architecture.h"
#include "shard/adapter.h"
#include "train/batches.h"
#include "train/train_state.h"
#include "train/update.h"

namespace dpo::run {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kWarmUp = 2;  // updates
constexpr std::uint64_t kWarmUpSeed = 0, kSeed = 1;

// Generates random examples whose lengths follow the statistics. Owns their tokens.
class RandomBatches {
 public:
  RandomBatches(const plan::Lengths& lengths, const config::RunConfig& config, std::int64_t vocabulary,
                std::uint64_t seed)
      : lengths_(lengths),
        config_(config),
        vocabulary_(vocabulary),
        responses_(std::llround(plan::unit_of(config.loss, lengths).responses.mean)),
        random_(seed) {}

  // Returns the next batches. Their tokens are valid until the next call.
  std::vector<train::ExampleBatch> take(std::int64_t count) {
    texts_.clear();
    std::vector<train::ExampleBatch> batches;
    for (std::int64_t i = 0; i < count; ++i) batches.push_back(make());
    return batches;
  }

 private:
  train::ExampleBatch make() {
    train::ExampleBatch batch;
    for (std::int64_t i = 0; i < config_.batch_size; ++i) {
      const auto prompt = text(lengths_.prompt);
      std::vector<std::span<const data::Token>> responses;
      for (std::int64_t r = 0; r < responses_; ++r) responses.push_back(text(lengths_.response));
      batch.indices.push_back(static_cast<std::uint32_t>(i));
      batch.examples.push_back(data::truncate(prompt, std::move(responses), data::Truncation::KeepEnd,
                                              config_.max_length, config_.max_prompt_length));
    }
    return batch;
  }

  std::span<const data::Token> text(const std::vector<double>& means) {
    const double mean = means[random_() % means.size()];
    std::vector<data::Token> tokens(std::max<std::size_t>(1, static_cast<std::size_t>(mean + 0.5)));
    for (data::Token& token : tokens)
      token = static_cast<data::Token>(random_() % static_cast<std::uint64_t>(vocabulary_));
    texts_.push_back(std::move(tokens));
    return texts_.back();
  }

  const plan::Lengths& lengths_;
  const config::RunConfig& config_;
  std::int64_t vocabulary_;
  std::int64_t responses_;  // per example
  std::mt19937_64 random_;
  std::vector<std::vector<data::Token>> texts_;
};

// `dtype_of_base` is the quantized format of the layers' matrices, if any. With it, whole blocks are created
// one by one and a rank keeps its quantized part of each, so the whole model is never in memory unquantized.
model::Weights random_weights(const model::Model& model, at::ScalarType type, const shard::Mesh& mesh,
                              const std::optional<ops::QuantizedDtype>& dtype_of_base = std::nullopt) {
  const at::NoGradGuard no_grad;
  const model::Layout layout = dtype_of_base ? model::Layout{} : mesh.layout();
  at::Generator generator = at::globalContext().defaultGenerator(mesh.device);
  generator.set_current_seed(0);
  model::Weights weights;
  for (const model::Block& block : model.table.blocks) {
    const at::Tensor flat = at::empty({model::block_size(block, layout).shard_size},
                                      at::TensorOptions().dtype(type).device(mesh.device));
    flat.normal_(0, model.config.settings.initializer_range);
    for (const model::Piece& piece : model::pieces_of(block, layout))
      if (block.tensors[piece.tensor].init == model::Init::ones)
        flat.narrow(0, piece.to, piece.count).fill_(1);
    const model::BlockWeights made = model::rank_block(flat, block, layout);
    weights.blocks.push_back(dtype_of_base ? model::quantize(made, block, *dtype_of_base, mesh.layout())
                                           : made);
  }
  return weights;
}

// Creates a live reference if the plan has one; an adapter's base serves as the reference too. A cached
// reference costs nothing in an update, so none is created.
train::TrainState random_state(const plan::Plan& plan, const model::Model& model, const shard::Mesh& mesh) {
  const config::RunConfig& config = plan.resolved;
  const bool has_adapter = config.adapter.name != config::Adapter::none;
  const config::Reshard reshard = train::storage_of(config, mesh).reshard_frozen;
  const at::ScalarType stored = train::scalar_type_of(config.model.policy_dtype);
  std::unique_ptr<train::Reference> reference = train::no_reference();
  std::optional<shard::LocalModel> frozen;
  const model::TensorTable adapter =
      has_adapter ? model::adapter_table(model.table, plan::adapter_settings(config.adapter))
                  : model::TensorTable();
  if (has_adapter)
    frozen = shard::frozen_base(
        model.config, random_weights(model, train::reference_dtype(config), mesh, train::base_dtype(config)),
        adapter, mesh, reshard);
  else if (plan.reference == plan::ReferenceMode::live)
    frozen.emplace(model, random_weights(model, train::reference_dtype(config), mesh), mesh, reshard);
  if (plan.reference == plan::ReferenceMode::live)
    reference = train::live_reference(train::placed({*frozen, train::pass_options(config)}, config, mesh));
  if (!has_adapter) frozen.reset();  // an offloaded reference leaves the device
  const auto state = [&](train::Policy policy) {
    return train::make_train_state(config, mesh, std::move(policy), std::move(reference));
  };
  if (!has_adapter)
    return state(train::make_policy(config, mesh, model, random_weights(model, stored, mesh)));
  const model::Model adapted = model::make_model(model.config, adapter);
  return state(train::make_policy(config, mesh, adapted,
                                  shard::new_adapter(adapted.trained, *frozen, stored, 0, mesh), frozen));
}

struct Measured {
  std::vector<double> seconds;  // for each update
  std::int64_t tokens = 0;

  double total() const { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }
};

// Measures updates under the conditions of a run: a batch is packed and its passes are queued while a GPU
// still updates weights for the previous batch. An update's time is therefore from the end of the previous
// one, on the host, to its own end. Batches are made before the clock starts, a limited number at a time; the
// last of each group waits for the GPU.
Measured measure(train::TrainState& state, RandomBatches& batches, std::int64_t updates) {
  constexpr std::int64_t kMostBatches = 64;
  Measured measured;
  for (std::int64_t left = updates; left > 0; left -= kMostBatches) {
    const std::vector<train::ExampleBatch> taken = batches.take(std::min(left, kMostBatches));
    Clock::time_point start = Clock::now();
    for (const train::ExampleBatch& batch : taken) {
      measured.tokens += train::update(state, batch).tokens;
      if (&batch == &taken.back()) wait_for_gpu();
      const Clock::time_point end = Clock::now();
      measured.seconds.push_back(std::chrono::duration<double>(end - std::exchange(start, end)).count());
    }
  }
  return measured;
}

}  // namespace

double BenchResult::mean_seconds() const {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
}

struct Bench::Parts {
  const plan::Lengths& lengths;
  std::int64_t vocabulary;
  train::TrainState state;

  Measured measure(std::int64_t updates, const config::RunConfig& config, std::uint64_t seed) {
    RandomBatches batches(lengths, config, vocabulary, seed);
    return run::measure(state, batches, updates);
  }
};

Bench::Bench(const plan::Plan& plan, const plan::Inputs& in, const shard::Mesh& mesh) : plan_(plan) {
  const plan::Architecture architecture = plan::find_architecture(plan.resolved.model.name_or_path);
  const model::Model model =
      model::make_model(model::parse_model_config(architecture.config_json, architecture.origin));
  parts_ =
      std::make_unique<Parts>(in.lengths, model.config.shape.vocabulary, random_state(plan, model, mesh));
  parts_->measure(kWarmUp, plan.resolved, kWarmUpSeed);
}

Bench::~Bench() = default;

BenchResult Bench::measure(std::int64_t updates) {
  const Measured measured = parts_->measure(updates, plan_.resolved, kSeed);
  const shard::Mesh& mesh = parts_->state.mesh;
  BenchResult result;
  result.seconds = measured.seconds;
  const double seconds = measured.total();
  result.pairs_per_second = static_cast<double>(plan_.resolved.batch_size * updates) / seconds;
  result.tokens_per_second = static_cast<double>(measured.tokens) / seconds;
  result.predicted_seconds = plan_.timing.update;
  result.predicted_bytes = plan_.memory.tensors();
  result.model_flops_utilization =
      plan_.timing.model_flops_utilization * plan_.timing.update / result.mean_seconds();
  const auto peak = static_cast<double>(peak_memory(!mesh.device.is_cpu()));
  result.peak_bytes = static_cast<std::uint64_t>(shard::max_over(*mesh.all, peak, mesh.device));
  return result;
}

Profile Bench::profile(std::int64_t updates) {
  const bool on_gpu = !parts_->state.mesh.device.is_cpu();
  ops::Profiler profiler(on_gpu);
  const Measured measured = parts_->measure(updates, plan_.resolved, kSeed);
  return profile_of(profiler.stop(), measured.total(), updates, on_gpu);
}

shard::Mesh bench_mesh(const config::RunConfig& config, comm::World world) {
  if (const char* text = std::getenv("DPO_LINK_GBYTES_PER_SECOND")) {
    char* end = nullptr;
    const double speed = std::strtod(text, &end);
    if (end == text || *end != '\0' || !(speed > 0))
      throw UserError(fmt::format("DPO_LINK_GBYTES_PER_SECOND is '{}', expected a number above 0", text));
    world.all = comm::throttled(world.all, std::make_shared<comm::Link>(speed * 1e9));
  }
  return train::mesh_of(config, world);
}

}  // namespace dpo::run
