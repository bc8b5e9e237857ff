#include "plan/timing.h"

#include <algorithm>
#include <cmath>

#include "config/losses.h"
#include "plan/balance.h"
#include "plan/memory.h"
#include "plan/reshard.h"

namespace dpo::plan {
namespace {

using model::Block;
using model::BlockKind;

// Returns the seconds of an optimizer step, which is bound by memory bandwidth. It reads the gradients twice
// (norm, update), reads and writes weights and optimizer state, and writes a copy of the weights in another
// dtype, if there is one.
double optimizer_seconds(const Workload& w) {
  const ElementBytes& p = w.bytes;
  const model::TensorTable& trained = w.in.trained();
  const double state = optimizer_values(w.in.run.optimizer, trained) / to_double(trained.count());
  const bool has_copy = p.master == to_double(p.stored);
  const double weights =
      has_copy ? to_double(p.weights) + 2 * p.master : 2 * (to_double(p.weights) + p.master);
  const double bytes = 2 * (to_double(p.gradients) + state * p.state) + weights;
  // Finding the 8-bit code of a value is arithmetic: 10 ps on an H200, for AdamW's two values.
  constexpr double kOperationsPerCode = 335;
  const bool has_codes =
      w.in.run.optimizer_state == config::OptimizerState::eight_bit && !w.machine.device.is_cpu;
  const double codes = has_codes ? state * kOperationsPerCode / w.machine.device.fp32_flops : 0;
  const double seconds =
      resident_parameters(w, trained) * (bytes / w.machine.device.memory_bandwidth + codes);
  // Offloaded state is copied to the device and back at the same time.
  return w.storage.optimizer_on_host ? std::max(seconds, optimizer_bytes(w) / w.machine.device.host_link)
                                     : seconds;
}

// Returns the seconds by which an update is longer because gradients are reduced once, block by block during
// the last backward pass: over shards if they were accumulated unsharded, and each rank's part over replicas.
// Nothing hides the reduction of the block that is complete last.
double gradient_reduction_seconds(const Workload& w) {
  const double bytes = to_double(w.bytes.gradients), shards = to_double(w.mesh.shard);
  const double over_shards =
      w.storage.accumulates_unsharded ? ring_share(w.mesh.shard) * bytes / shard_bus(w) : 0;
  const double over_replicas = 2 * ring_share(w.mesh.replica) * bytes / shards /
                               w.machine.bus(w.mesh.ranks(), w.mesh.shard * w.mesh.tensor);
  const auto seconds = [&](const Block& block) {
    return parameters_of_tensor_rank(w, block) * (over_shards + over_replicas);
  };
  double all = 0;
  for (const Block& block : w.in.trained().blocks) all += seconds(block);
  const double compute = backward_pass(w).compute;
  return overlapped(compute, all) - compute + seconds(w.in.trained().blocks.front());
}

TokenThreshold token_threshold(const Workload& w) {
  if (w.mesh.shard == 1) return {};
  // The forward pass gathers these bytes per parameter, and computes 2 operations per parameter and token.
  // The backward pass also reduce-scatters gradients, and computes 4; with frozen weights it only gathers,
  // and computes 2.
  const bool is_frozen = w.in.adapter != nullptr;
  const double gathered = w.in.run.adapter.base_dtype ? bytes_per_parameter(w) : to_double(w.bytes.weights);
  const GatheringPasses gathering = gathering_passes(w);
  const double forward = gathering.forward * gathered / 2;
  const double backward = is_frozen ? gathering.backward * gathered / 2
                                    : (gathering.backward * gathered + to_double(w.bytes.reduction)) / 4;
  // All parameters of a mixture of experts are gathered, but a token is multiplied only by the active ones.
  const double idle = to_double(w.in.table->count()) / to_double(w.in.table->active_count());
  const double scale_well =
      idle * std::max(forward, backward) * ring_share(w.mesh.shard) * flops_per_second(w) / shard_bus(w);
  return {scale_well, scale_well / to_double(w.mesh.ranks())};
}

std::int64_t examples_of_run(const Inputs& in) {
  const std::int64_t per_epoch = unit_of(in.run.loss, in.lengths).in_epoch;
  const std::int64_t batch = in.run.batch_size;
  // The last, partial batch of an epoch is dropped; n_examples is checked only after a full batch.
  const std::int64_t epoch_batches = per_epoch / batch;
  std::int64_t batches = in.run.n_epochs ? epoch_batches * *in.run.n_epochs : INT64_MAX / batch;
  if (in.run.n_examples) batches = std::min(batches, (*in.run.n_examples + batch - 1) / batch);
  return batches * batch;
}

double mean_prompt(const Workload& w) { return w.example.mean - w.example.response_mean; }

// Returns the seconds in which one model samples, with all prompts in one batch. On a GPU a token is bound by
// reading or gathering the weights, or by computing. A CPU does both in turn, and matmuls of a few rows are
// slow there: SmolLM2-135M took 35, 85 and 135 ms of one Sapphire Rapids core for a token of 1, 4 and 16
// texts in float32.
double sampling_seconds(const Workload& w, std::int64_t texts, double tokens) {
  const double weight = to_double(w.bytes.weights);
  const double active = to_double(w.in.table->active_count()) / to_double(w.mesh.tensor);
  const double reading =
      to_double(w.in.table->count()) / to_double(w.mesh.tensor) * weight / w.machine.device.memory_bandwidth;
  double expanding = 0, gathering = 0;
  for (const Block& block : w.in.table->blocks) {
    expanding += expanding_seconds(w, block);
    gathering += gathering_passes(w).scoring * bytes_to_gather(w, block, weight) * ring_share(w.mesh.shard) /
                 shard_bus(w);
  }
  constexpr double kFewRows = 3;
  const double computing = active * 2 * to_double(texts) / flops_per_second(w);
  const double on_cpu = w.machine.device.is_cpu ? reading + kFewRows * computing : 0;
  const double prompts = policy_pass(w).elapsed * to_double(texts) * mean_prompt(w) / w.tokens;
  return prompts + tokens * (expanding + std::max({reading, gathering, computing, on_cpu}));
}

// Returns the rest of max_length after a prompt.
double room_for_samples(const Workload& w) {
  return std::max(1.0, to_double(w.in.run.max_length) - mean_prompt(w));
}

// Returns what is sampled with sample_during_eval=auto: as many texts, and then as many tokens, as take
// `seconds` for one model by this plan. A busy machine gets more time, up to a limit after which texts are
// cut.
Sampled few_samples(const Workload& w, std::int64_t most, double seconds) {
  constexpr std::int64_t kTexts = 4, kTokens = 64, kLeast = 16;  // shorter texts are not informative
  constexpr double kPatience = 3;
  constexpr double kMostOnCpu = 5, kLeastLimit = 3;  // seconds
  if (w.machine.device.is_cpu) seconds = std::min(seconds, kMostOnCpu);
  Sampled sampled{std::min(kTexts, most), kTokens, std::max(kPatience * seconds, kLeastLimit)};
  const auto takes_too_long = [&](std::int64_t tokens) {
    return sampling_seconds(w, sampled.texts, to_double(tokens)) > seconds;
  };
  while (sampled.texts > 0 && takes_too_long(kLeast)) --sampled.texts;
  while (sampled.tokens > kLeast && takes_too_long(sampled.tokens)) --sampled.tokens;
  return sampled;
}

std::int64_t count_evaluations(const Timing& t, const Workload& w,
                               const std::optional<std::int64_t>& eval_every) {
  if (!eval_every || t.examples == 0) return 0;
  // The end of a run is always evaluated.
  return (t.examples - 1) / *eval_every + 1 + (w.in.run.do_first_eval ? 1 : 0);
}

// Returns the host's part of a microbatch, fitted to the updates that the passes were fitted to.
double host_seconds(const Workload& w) {
  constexpr double kOnGpu = 2e-3;
  return w.machine.device.is_cpu ? 0 : kOnGpu;
}

// Returns the seconds of a forward pass of the policy, or of the reference, over this many examples on all
// ranks.
double seconds_of(const MicrobatchTime& pass, const Workload& w, std::int64_t examples) {
  return (pass.elapsed + host_seconds(w)) / w.examples / to_double(w.mesh.data_ranks()) * to_double(examples);
}

double evaluation_seconds(const Workload& w) {
  const double passes = facts_of(w.in.run.loss.name).needs_kl ? 2 : 1;
  return passes * seconds_of(scoring_pass(w), w, evaluation_of(w.in).examples);
}

// Returns the seconds in which a cached reference is scored.
double reference_seconds(const Workload& w, const Timing& t) {
  if (w.reference != ReferenceMode::cached) return 0;
  const std::int64_t rows = std::min(t.examples, unit_of(w.in.run.loss, w.in.lengths).in_epoch);
  const std::int64_t evaluated = t.evaluations > 0 ? evaluation_of(w.in).examples : 0;
  return seconds_of(reference_pass(w), w, rows + evaluated);
}

// Returns how often models sample: the policy after the first update, in place of the evaluation before it,
// and at the later evaluations; the reference once.
std::int64_t count_samplings(const Workload& w, const Timing& t, const Intervals& intervals) {
  if (w.in.run.sample_during_eval == config::Sampling::none || t.evaluations == 0) return 0;
  const bool is_evaluated_then = t.updates == 1 || *intervals.evaluate == w.in.run.batch_size;
  const bool one_less = w.in.run.do_first_eval && is_evaluated_then;
  return t.evaluations - (one_less ? 1 : 0) + (w.reference == ReferenceMode::none ? 0 : 1);
}

void add_sampling(Timing& t, const Workload& w, const Intervals& intervals) {
  constexpr double kShare = 0.05;  // of the run's time
  t.samplings = count_samplings(w, t, intervals);
  if (t.samplings == 0) return;
  const std::int64_t examples = evaluation_of(w.in).examples;
  if (w.in.run.sample_during_eval == config::Sampling::whole)
    t.sampled = {std::min(w.in.run.n_eval_model_samples, examples), w.in.run.max_length, std::nullopt};
  else
    t.sampled = few_samples(w, examples, kShare * t.total_hours() * 3600 / to_double(t.samplings));
  if (t.sampled.texts == 0) t.samplings = 0;
  const double tokens = std::min(room_for_samples(w), to_double(t.sampled.tokens));
  t.sampling_hours = to_double(t.samplings) * sampling_seconds(w, t.sampled.texts, tokens) / 3600;
}

// A checkpoint is copied while the run waits and written in the background; the next checkpoint and the end
// of the run wait until that is done. The rates were measured with our files and hashes on one disk.
double checkpoint_seconds(const Workload& w, const Timing& t, const Intervals& intervals) {
  constexpr double kCopyRate = 3e9, kWriteRate = 0.5e9;  // bytes per second
  if (t.checkpoints == 0) return 0;
  const double copy = intervals.checkpoint_bytes / to_double(w.mesh.ranks()) / kCopyRate;
  const double write = intervals.checkpoint_bytes / kWriteRate;
  const double between = t.training_hours * 3600 / to_double(t.checkpoints);
  return to_double(t.checkpoints) * copy + to_double(t.checkpoints - 1) * std::max(0.0, write - between) +
         write;
}

// Returns the time of an update's passes over a microbatch.
MicrobatchTime microbatch_time(const Workload& w) {
  MicrobatchTime time = training_pass(w);
  if (w.reference == ReferenceMode::live) time = time + reference_pass(w);
  for (int i = 0; i < facts_of(w.in.run.loss.name).scoring_passes(); ++i) time = time + scoring_pass(w);
  time.elapsed += host_seconds(w);
  return time;
}

void add_whole_run(Timing& t, const Workload& w, const Intervals& intervals) {
  t.examples = examples_of_run(w.in);
  t.updates = t.examples / w.in.run.batch_size;
  t.evaluations = count_evaluations(t, w, intervals.evaluate);
  const bool saves = t.updates > 0 && !w.in.run.debug;
  t.checkpoints = saves ? (intervals.save ? (t.examples - 1) / *intervals.save : 0) + 1 : 0;
  t.training_hours = to_double(t.updates) * t.update / 3600;
  t.evaluation_hours = to_double(t.evaluations) * evaluation_seconds(w) / 3600;
  t.reference_hours = reference_seconds(w, t) / 3600;
  t.checkpoint_hours = checkpoint_seconds(w, t, intervals) / 3600;
  add_sampling(t, w, intervals);
  const double devices = to_double(w.devices());
  t.energy_kwh = t.total_hours() * w.machine.device.watts * devices / 1000;
  t.cost_usd = t.total_hours() * w.machine.device.usd_per_hour * devices;
}

}  // namespace

Timing timing_of(const Workload& w, const Intervals& intervals) {
  Timing t;
  t.slowest_rank = slowest_rank(w);
  const Workload slowest = with_work(w, t.slowest_rank);
  t.microbatch = microbatch_time(w);
  t.microbatch.elapsed = microbatch_time(slowest).elapsed;
  t.optimizer = optimizer_seconds(w);
  t.gradient_reduction = gradient_reduction_seconds(w);
  t.update = to_double(w.in.run.gradient_accumulation_steps) * t.microbatch.elapsed + t.gradient_reduction +
             t.optimizer;
  const double batch = to_double(w.in.run.batch_size);
  t.examples_per_second = batch / t.update;
  t.tokens_per_second = batch * w.example.mean / t.update;
  double forward = 0;
  for (const Block& block : w.in.table->blocks) forward += forward_flops(w, block);
  // Useful operations count neither recomputation nor the reference. Frozen weights have no gradients.
  const double useful = (w.in.adapter ? 2 : 3) * forward / w.examples * batch;
  const Device& device = w.machine.device;
  const double peak = w.bytes.in_16_bits() ? device.bf16_flops : device.fp32_flops;
  t.model_flops_utilization = useful / t.update / (peak * to_double(w.devices()));
  const double microbatches = to_double(w.in.run.gradient_accumulation_steps);
  const double fp8_flops = device.is_cpu ? 0 : t.microbatch.fp8_flops;
  t.least_matmuls = microbatches * ((t.microbatch.matmul_flops - fp8_flops) / peak +
                                    (fp8_flops > 0 ? fp8_flops / device.fp8_flops : 0));
  t.least_attention = microbatches * t.microbatch.attention_flops / peak;
  t.threshold = token_threshold(w);
  add_whole_run(t, slowest, intervals);
  return t;
}

}  // namespace dpo::plan
