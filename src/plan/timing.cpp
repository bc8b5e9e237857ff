#include "plan/timing.h"

#include <algorithm>
#include <cmath>

#include "loss/loss.h"
#include "plan/memory.h"

namespace dpo::plan {
namespace {

using model::Block;
using model::BlockKind;

// FLOP/s that training reaches.
double rate_of(const Case& c, bool bf16) { return c.machine.device.training_flops(bf16); }

double flops_per_second(const Case& c) { return rate_of(c, c.precision.bf16); }

// Floating-point operations of one block's forward pass over the microbatch.
double forward_flops(const Case& c, const Block& block) {
  switch (block.kind) {
    case BlockKind::embedding: return 0;
    case BlockKind::layer:
      return 2 * to_double(block.matmul_count()) * c.tokens +
             4 * to_double(c.in.shape.query_width()) * c.attended;
    case BlockKind::head: return 2 * to_double(c.in.table->head_matmul_count) * c.response_rows;
  }
  return 0;
}

// Collectives that overlap with compute still take multiprocessors and memory bandwidth. Two public
// measurements on H200s (89 % efficiency over 2 GPUs at 8k tokens each, 93 % over 4 at 16k) give this share.
constexpr double kInterference = 0.8;

double overlapped(double compute, double communication) {
  return std::max(compute, communication) + kInterference * std::min(compute, communication);
}

// Launching the kernels of one block's forward pass takes at least this long on a GPU.
constexpr double kLaunchSeconds = 150e-6;

// The same on a CPU, and what a layer costs there besides its matrix products: norms, activation, softmax and
// attention over short texts, in operations at the float32 rate per token, and per token and hidden element.
// Fitted to one thread of a Neoverse V1 in float32, hidden sizes of 32 to 512 and 30 to 1440
// tokens: 16 steps within 13 %.
constexpr double kBlockSecondsOnCpu = 0.28e-3;
constexpr double kOperationsPerToken = 240e3, kOperationsPerElement = 4600;

double non_matmul_seconds(const Case& c, const Block& block) {
  if (!c.machine.device.is_cpu) return 0;
  if (block.kind != BlockKind::layer) return kBlockSecondsOnCpu;
  const double each = kOperationsPerToken + kOperationsPerElement * to_double(c.in.shape.hidden);
  return kBlockSecondsOnCpu + c.tokens * each / to_double(c.mesh.tensor) / rate_of(c, /*bf16=*/false);
}

// Share of the bytes that a ring exchange sends over its links.
double ring_share(std::int64_t ranks) { return to_double(ranks - 1) / to_double(ranks); }

double shard_bus(const Case& c) { return c.machine.bus(c.mesh.shard * c.mesh.tensor); }

double parameters_of_tensor_rank(const Case& c, const Block& block) {
  return to_double(block.count_on_rank(c.mesh.tensor));
}

// Rows of hidden states that tensor-parallel ranks all-reduce in one direction of a block's pass: two per
// token for a layer, one for the embedding's output and one for the gradient of the head's input. A
// recomputed layer repeats those of its forward pass.
double tensor_rows(const Case& c, BlockKind kind, double work) {
  const bool backward = work > 1;
  switch (kind) {
    case BlockKind::embedding: return backward ? 0 : c.tokens;
    case BlockKind::layer: return (work > 2 ? 4 : 2) * c.tokens;
    case BlockKind::head: return backward ? c.response_rows : 0;
  }
  return 0;
}

double tensor_seconds(const Case& c, BlockKind kind, double work) {
  const double row = to_double(c.in.shape.hidden * c.precision.weights);
  return 2 * tensor_rows(c, kind, work) * row * ring_share(c.mesh.tensor) / c.machine.bus(c.mesh.tensor);
}

// One pass over the blocks. `work`: multiples of the forward pass (1 forward, 2 backward, 3 with
// recomputation); `bytes`: what shard ranks exchange per parameter in it.
MicrobatchTime pass(const Case& c, double work, double bytes) {
  const double rate = flops_per_second(c);
  const double moved = ring_share(c.mesh.shard) * bytes / shard_bus(c);  // seconds per parameter
  MicrobatchTime sum;
  for (const Block& block : c.in.table->blocks) {
    // Only layers are recomputed.
    const double times = block.kind == BlockKind::layer ? work : std::min(work, 2.0);
    const double launches = c.machine.device.is_cpu ? 0 : times * kLaunchSeconds;
    const double compute =
        std::max(launches, times * forward_flops(c, block) / rate / to_double(c.mesh.tensor)) +
        times * non_matmul_seconds(c, block);
    const double shards = moved * parameters_of_tensor_rank(c, block);
    const double tensor = tensor_seconds(c, block.kind, work);  // needed at once: nothing hides it
    sum.compute += compute;
    sum.communication += shards + tensor;
    sum.elapsed += overlapped(compute, shards) + tensor;
  }
  // Nothing hides the first gather of a pass, or the last reduce-scatter.
  sum.elapsed += moved * parameters_of_tensor_rank(c, c.in.table->blocks.front());
  return sum;
}

MicrobatchTime forward_pass(const Case& c, std::int64_t weight_bytes) {
  return pass(c, 1, to_double(weight_bytes));
}

MicrobatchTime training_pass(const Case& c) {
  const double recompute = c.in.run.activation_checkpointing ? 1 : 0;
  const std::int64_t reduced = accumulates_unsharded(c) ? 0 : c.precision.reduction;
  return forward_pass(c, c.precision.weights) +
         pass(c, 2 + recompute, to_double(c.precision.weights + reduced));
}

MicrobatchTime reference_pass(const Case& c) {
  return needs_reference(c.in.run.loss) ? forward_pass(c, c.precision.reference) : MicrobatchTime{};
}

// Extra scoring without gradients: KTO scores every prompt with the responses of another example; a loss that
// compares examples scores the whole batch before its gradients.
MicrobatchTime scoring_pass(const Case& c) {
  MicrobatchTime pass = forward_pass(c, c.precision.weights);
  if (c.reference == ReferenceMode::live) pass = pass + reference_pass(c);
  return pass;
}

loss::Options loss_of(const Case& c) { return {.name = c.in.run.loss.name}; }

// Bound by memory: gradients are read twice (norm, update), master weights and optimizer state read and
// written, 16-bit weights written.
double optimizer_seconds(const Case& c) {
  const Precision& p = c.precision;
  const double state = optimizer_values(c.in.run.optimizer, *c.in.table) / to_double(c.in.table->count());
  const double copy = p.master > 0 ? to_double(p.weights) : 0;
  const double stored = p.master > 0 ? to_double(p.master) : to_double(p.weights);
  const double bytes = 2 * to_double(p.gradients) + copy + 2 * stored + 2 * state * to_double(p.state);
  return resident_parameters(c) * bytes / c.machine.device.memory_bandwidth;
}

// Gradients that are reduced once per update, after its last microbatch: over shards where they were
// accumulated unsharded, and each rank's part over replicas.
double exchange_seconds(const Case& c) {
  const double bytes = to_double(c.precision.gradients);
  double seconds = 0;
  if (accumulates_unsharded(c))
    for (const Block& block : c.in.table->blocks)
      seconds += ring_share(c.mesh.shard) * parameters_of_tensor_rank(c, block) * bytes / shard_bus(c);
  return seconds +
         2 * ring_share(c.mesh.replica) * resident_parameters(c) * bytes / c.machine.bus(c.mesh.ranks());
}

TokenThreshold token_threshold(const Case& c) {
  if (c.mesh.shard == 1) return {};
  // The backward pass gathers and reduce-scatters these bytes per parameter, and computes 4 operations per
  // parameter and token.
  const double bytes = to_double(c.precision.weights + c.precision.reduction);
  const double scale_well = bytes / 4 * ring_share(c.mesh.shard) * flops_per_second(c) / shard_bus(c);
  return {scale_well, scale_well / to_double(c.mesh.ranks())};
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

// Samples of one model, all prompts in one batch: bound by reading or gathering the weights once per token,
// or by computing.
double sampling_seconds(const Case& c) {
  const config::RunConfig& run = c.in.run;
  if (!run.sample_during_eval) return 0;
  const double new_tokens =
      std::max(0.0, to_double(run.max_length) - (c.example.mean - c.example.response_mean));
  const double parameters = to_double(c.in.table->count()) / to_double(c.mesh.tensor);
  const double seconds_per_byte =
      std::max(1 / c.machine.device.memory_bandwidth, ring_share(c.mesh.shard) / shard_bus(c));
  const double texts = to_double(std::min(run.n_eval_model_samples, evaluation_of(c.in).examples));
  return new_tokens * parameters *
         std::max(to_double(c.precision.weights) * seconds_per_byte, 2 * texts / flops_per_second(c));
}

std::int64_t count_evaluations(const Timing& t, const Case& c,
                               const std::optional<std::int64_t>& eval_every) {
  if (!eval_every) return 0;
  return t.examples / *eval_every + (c.in.run.do_first_eval ? 1 : 0);
}

// Seconds of a forward pass of the policy, or of the reference, over so many examples on all ranks.
double seconds_of(const MicrobatchTime& pass, const Case& c, std::int64_t examples) {
  return pass.elapsed / c.examples / to_double(c.mesh.data_ranks()) * to_double(examples);
}

double evaluation_seconds(const Case& c) {
  const double passes = loss::is_unpaired(loss_of(c)) ? 2 : 1;
  return passes * seconds_of(scoring_pass(c), c, evaluation_of(c.in).examples) + sampling_seconds(c);
}

// What the reference computes before the run: its samples, and its scores where they are cached.
double reference_seconds(const Case& c, const Timing& t) {
  if (c.reference == ReferenceMode::none) return 0;
  double seconds = t.evaluations > 0 ? sampling_seconds(c) : 0;
  if (c.reference != ReferenceMode::cached) return seconds;
  const std::int64_t rows = std::min(t.examples, unit_of(c.in.run.loss, c.in.lengths).in_epoch);
  const std::int64_t evaluated = t.evaluations > 0 ? evaluation_of(c.in).examples : 0;
  return seconds + seconds_of(reference_pass(c), c, rows + evaluated);
}

// A checkpoint is copied while the run waits and written in the background; the next checkpoint and the end
// of the run wait until that is done. The rates were measured with our files and hashes on one disk.
double checkpoint_seconds(const Case& c, const Timing& t, const Intervals& intervals) {
  constexpr double kCopyRate = 3e9, kWriteRate = 0.5e9;  // bytes per second
  if (t.checkpoints == 0) return 0;
  const double copy = intervals.checkpoint_bytes / to_double(c.mesh.ranks()) / kCopyRate;
  const double write = intervals.checkpoint_bytes / kWriteRate;
  const double between = t.training_hours * 3600 / to_double(t.checkpoints);
  return to_double(t.checkpoints) * copy + to_double(t.checkpoints - 1) * std::max(0.0, write - between) +
         write;
}

void add_whole_run(Timing& t, const Case& c, const Intervals& intervals) {
  t.examples = examples_of_run(c.in);
  t.updates = t.examples / c.in.run.batch_size;
  t.evaluations = count_evaluations(t, c, intervals.evaluate);
  const bool saves = t.updates > 0 && !c.in.run.debug;
  t.checkpoints = saves ? (intervals.save ? (t.examples - 1) / *intervals.save : 0) + 1 : 0;
  t.training_hours = to_double(t.updates) * t.step / 3600;
  t.evaluation_hours = to_double(t.evaluations) * evaluation_seconds(c) / 3600;
  t.reference_hours = reference_seconds(c, t) / 3600;
  t.checkpoint_hours = checkpoint_seconds(c, t, intervals) / 3600;
  const double devices = to_double(c.devices());
  t.energy_kwh = t.total_hours() * c.machine.device.watts * devices / 1000;
  t.cost_usd = t.total_hours() * c.machine.device.usd_per_hour * devices;
}

}  // namespace

Timing timing_of(const Case& c, const Intervals& intervals) {
  Timing t;
  t.microbatch = training_pass(c);
  if (c.reference == ReferenceMode::live) t.microbatch = t.microbatch + reference_pass(c);
  for (const bool scores : {loss::is_unpaired(loss_of(c)), loss::needs_whole_batch(loss_of(c))})
    if (scores) t.microbatch = t.microbatch + scoring_pass(c);
  t.optimizer = optimizer_seconds(c);
  t.exchange = exchange_seconds(c);
  t.step = to_double(c.in.run.gradient_accumulation_steps) * t.microbatch.elapsed + t.exchange + t.optimizer;
  const double batch = to_double(c.in.run.batch_size);
  t.examples_per_second = batch / t.step;
  t.tokens_per_second = batch * c.example.mean / t.step;
  double forward = 0;
  for (const Block& block : c.in.table->blocks) forward += forward_flops(c, block);
  const double useful = 3 * forward / c.examples * batch;  // without recomputation and reference
  const Device& device = c.machine.device;
  t.model_flops_utilization =
      useful / t.step / ((c.precision.bf16 ? device.bf16_flops : device.fp32_flops) * to_double(c.devices()));
  t.threshold = token_threshold(c);
  add_whole_run(t, c, intervals);
  return t;
}

}  // namespace dpo::plan
