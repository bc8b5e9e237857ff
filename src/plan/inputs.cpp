#include "plan/inputs.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/number_formats.h"
#include "config/losses.h"
#include "plan/memory.h"
#include "plan/reshard.h"

namespace dpo::plan {
namespace {

std::int64_t bytes_of(config::Dtype dtype) { return dtype == config::Dtype::float32 ? 4 : 2; }

double bytes_of(config::OptimizerState state) {
  switch (state) {
    case config::OptimizerState::float32: return 4;
    case config::OptimizerState::bfloat16: return 2;
    case config::OptimizerState::eight_bit: return kStateCodeBytes;
  }
  return 4;
}

// BasicTrainer is one process, however many devices there are, unless a launcher started more.
std::int64_t ranks_of(const Machine& machine, const config::RunConfig& run) {
  return run.trainer == config::Trainer::Basic && !machine.launched ? 1 : machine.ranks();
}

ReferenceMode reference_of(const config::RunConfig& run, ReferenceMode if_auto) {
  if (!uses_reference(run.loss)) return ReferenceMode::none;
  switch (run.reference) {
    case config::ReferenceScoring::automatic: break;
    case config::ReferenceScoring::live: return ReferenceMode::live;
    case config::ReferenceScoring::cached: return ReferenceMode::cached;
  }
  return if_auto;
}

// Returns the tokens of several examples: mean plus three standard deviations of their sum, at most the
// largest possible.
double peak_tokens_of(double mean, double deviation, double largest, double examples) {
  return std::min(largest * std::max(1.0, examples), mean * examples + 3 * deviation * std::sqrt(examples));
}

}  // namespace

ExampleUnit unit_of(const config::LossConfig& loss, const Lengths& lengths) {
  using config::ExampleKind;
  const ExampleKind kind = facts_of(loss.name).examples;
  if (kind == ExampleKind::Target) return {"example", lengths.train_prompts, lengths.test_prompts, {1, 1, 1}};
  if (kind == ExampleKind::Unpaired && lengths.train_labels > 0) {
    const std::int64_t all = lengths.train_pairs + lengths.train_labels;
    const double mean = 1 + to_double(lengths.train_pairs) / to_double(all);
    return {"example", all, lengths.test_pairs + lengths.test_labels, {mean, std::ceil(mean), 1}};
  }
  if (kind != ExampleKind::Ranking) return {"pair", lengths.train_pairs, lengths.test_pairs, {2, 2, 2}};
  const double mean =
      lengths.train_rankings == 0 ? 2 : to_double(lengths.train_ranked) / to_double(lengths.train_rankings);
  return {"ranking", lengths.train_rankings, lengths.test_rankings, {mean, lengths.longest_ranking, 2}};
}

config::EvaluationSize evaluation_of(const Inputs& in) {
  const bool is_counted = in.lengths.basis != LengthBasis::statistics;
  return config::evaluation_size(in.run, is_counted ? unit_of(in.run.loss, in.lengths).in_test : 0);
}

std::optional<config::MeshShape> find_mesh(const Inputs& in) {
  return config::find_mesh(in.run, ranks_of(machine_of_ranks(in.machine, in.run), in.run));
}

model::AdapterSettings adapter_settings(const config::AdapterConfig& config) {
  model::AdapterSettings settings{.r = config.r,
                                  .alpha = config.alpha,
                                  .dropout = config.dropout,
                                  .targets = config.targets,
                                  .rslora = config.rslora,
                                  .dora = config.dora,
                                  .modules_to_save = config.modules_to_save};
  settings.rank_pattern.assign(config.rank_pattern.begin(), config.rank_pattern.end());
  settings.alpha_pattern.assign(config.alpha_pattern.begin(), config.alpha_pattern.end());
  return settings;
}

config::BaseDtype base_dtype_of(const model::Quantization& stored) {
  return stored.dtype == model::Quantization::Dtype::nf4 ? config::BaseDtype::nf4 : config::BaseDtype::int8;
}

std::shared_ptr<const model::TensorTable> adapter_of(const config::RunConfig& run,
                                                     const model::TensorTable& table) {
  if (run.adapter.name == config::Adapter::none) return nullptr;
  return std::make_shared<const model::TensorTable>(
      model::adapter_table(table, adapter_settings(run.adapter)));
}

Workload make_workload(const Inputs& in, ReferenceMode reference_if_auto) {
  Workload w{.in = in, .machine = machine_of_ranks(in.machine, in.run)};
  w.mesh = config::mesh_of(in.run, ranks_of(w.machine, in.run));
  w.spread = config::spreads_layers(in.run, w.mesh.ranks()) ? w.machine.gpus : 1;
  w.reference = reference_of(in.run, reference_if_auto);
  w.storage = config::storage_of(in.run, w.mesh, !w.machine.device.is_cpu);
  w.bytes = element_bytes(w.storage);
  w.example = example_tokens(in.lengths, in.run.max_length, in.run.max_prompt_length,
                             unit_of(in.run.loss, in.lengths).responses);
  w.examples =
      to_double(in.run.batch_size) / to_double(in.run.gradient_accumulation_steps * w.mesh.data_ranks());
  w.tokens = w.example.mean * w.examples;
  w.peak_tokens = peak_tokens_of(w.example.mean, w.example.deviation, w.example.largest, w.examples);
  w.response_rows = w.example.response_mean * in.lengths.scored * w.examples;
  w.peak_response_rows = std::min(w.peak_tokens, w.example.response_largest * std::max(1.0, w.examples));
  w.attended = w.example.attended * w.examples;
  decide_reshard(w);
  return w;
}

ElementBytes element_bytes(const config::Storage& storage) {
  ElementBytes bytes;
  bytes.weights = bytes_of(storage.computed);
  bytes.gradients = bytes_of(storage.gradients);
  bytes.stored = bytes_of(storage.stored);
  if (storage.computed != storage.stored)
    bytes.master = storage.in_two_parts() ? kFloatRestBytes : to_double(bytes.stored);
  bytes.state = storage.state ? bytes_of(*storage.state) : to_double(bytes.stored);
  bytes.reduction = bytes_of(storage.reduced);
  bytes.reference = bytes_of(storage.reference);
  return bytes;
}

std::optional<std::string> resolve_precision(config::ModelConfig& model, const Device& device) {
  if (model.fsdp_policy_mp != config::Dtype::automatic) return std::nullopt;
  model.fsdp_policy_mp.reset();
  if (model.policy_dtype != config::Dtype::float32)
    return fmt::format("model.fsdp_policy_mp=auto computes in {}, the dtype of the weights",
                       name_of(model.policy_dtype));
  const double bf16 = device.training_flops(true) / 1e12, fp32 = device.training_flops(false) / 1e12;
  if (device.supports_bf16 && bf16 > fp32) model.fsdp_policy_mp = config::Dtype::bfloat16;
  return fmt::format(
      "model.fsdp_policy_mp=auto computes in {}, the faster dtype here: {} reaches about {:.3g} TFLOP/s in "
      "float32 and {} in bfloat16",
      name_of(model.fsdp_policy_mp.value_or(config::Dtype::float32)), device.name, fp32,
      device.supports_bf16 ? fmt::format("{:.3g}", bf16) : "none");
}

bool is_preference(const config::LossConfig& loss) { return facts_of(loss.name).is_preference(); }

// An estimate of the KL scores prompts with the responses of other examples, which differ from batch to
// batch.
bool can_cache(const config::LossConfig& loss) { return !facts_of(loss.name).needs_kl; }

}  // namespace dpo::plan
