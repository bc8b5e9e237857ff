#include "plan/timing.h"

#include <algorithm>
#include <cmath>

#include "plan/memory.h"

namespace dpo::plan {
namespace {

using model::Block;
using model::BlockKind;

double to_double(std::int64_t count) { return static_cast<double>(count); }

double flops_per_second(const Case& c) {
  const Device& device = c.in.machine.device;
  return (c.precision.half ? device.half_rate : device.single_rate) * device.efficiency;
}

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

// Collectives that run beside compute still take processors and memory bandwidth from it. Two public
// measurements on H200s (89 % efficiency over 2 GPUs at 8k tokens each, 93 % over 4 at 16k) give this share.
constexpr double kInterference = 0.8;

double overlapped(double compute, double communication) {
  return std::max(compute, communication) + kInterference * std::min(compute, communication);
}

// A GPU cannot be given the kernels of a block faster than this for one forward pass.
constexpr double kLaunchSeconds = 150e-6;

// One pass over the blocks. `work`: multiples of the forward pass (1 forward, 2 backward, 3 with
// recomputation); `bytes`: what a sharded run moves per parameter in it.
Microbatch pass(const Case& c, double work, double bytes) {
  const double rate = flops_per_second(c);
  const double others = to_double(c.ranks - 1) / to_double(c.ranks);
  const double bus = c.in.machine.bus();
  const double degree = c.trainer == Trainer::tensor ? to_double(c.ranks) : 1;
  Microbatch sum;
  double first = 0;
  for (const Block& block : c.in.table->blocks) {
    // Only layers are recomputed.
    const double times = block.kind == BlockKind::layer ? work : std::min(work, 2.0);
    const double launches = c.in.machine.device.is_cpu ? 0 : times * kLaunchSeconds;
    const double compute = std::max(launches, times * forward_flops(c, block) / rate / degree);
    double communication = 0;
    if (c.trainer == Trainer::sharded) communication = others * to_double(block.count()) * bytes / bus;
    if (c.trainer == Trainer::tensor && block.kind == BlockKind::layer)
      // Two all-reduces of the hidden states in each direction, each moving them twice; again in a
      // recomputation.
      communication =
          (work > 2 ? 8 : 4) * c.tokens * to_double(c.in.shape.hidden * c.precision.weights) * others / bus;
    if (&block == &c.in.table->blocks.front()) first = communication;
    sum.compute += compute;
    sum.communication += communication;
    sum.elapsed +=
        c.trainer == Trainer::tensor ? compute + communication : overlapped(compute, communication);
  }
  // Nothing hides the first gather of a pass, or the last scatter.
  if (c.trainer == Trainer::sharded) sum.elapsed += first;
  return sum;
}

Microbatch operator+(const Microbatch& a, const Microbatch& b) {
  return {a.compute + b.compute, a.communication + b.communication, a.elapsed + b.elapsed};
}

Microbatch forward_pass(const Case& c, std::int64_t weight_bytes) {
  return pass(c, 1, to_double(weight_bytes));
}

Microbatch training_pass(const Case& c) {
  const double recompute = c.in.run.activation_checkpointing ? 1 : 0;
  return forward_pass(c, c.precision.weights) +
         pass(c, 2 + recompute, to_double(c.precision.weights + c.precision.reduction));
}

Microbatch reference_pass(const Case& c) {
  return needs_reference(c.in.run.loss) ? forward_pass(c, c.precision.reference) : Microbatch{};
}

// One pass over memory: gradients twice (norm, update), weights or their master copy and the state read and
// written, the 16-bit copy written.
double optimizer_seconds(const Case& c) {
  const Precision& p = c.precision;
  const double state = optimizer_values(c.in.run.optimizer, *c.in.table) / to_double(c.in.table->count());
  const double copy = p.master > 0 ? to_double(p.weights) : 0;
  const double kept = p.master > 0 ? to_double(p.master) : to_double(p.weights);
  const double bytes = 2 * to_double(p.gradients) + copy + 2 * kept + 2 * state * to_double(p.state);
  return resident_parameters(c) * bytes / c.in.machine.device.memory_bandwidth;
}

TokenThreshold token_threshold(const Case& c) {
  if (c.trainer != Trainer::sharded || c.ranks == 1) return {};
  const double others = to_double(c.ranks - 1) / to_double(c.ranks);
  // Backward moves gather + scatter bytes per parameter against 4 operations per parameter and token.
  const double bytes = to_double(c.precision.weights + c.precision.reduction);
  const double scale_well = bytes / 4 * others * flops_per_second(c) / c.in.machine.bus();
  return {scale_well, scale_well / to_double(c.ranks)};
}

std::int64_t examples_of_run(const Inputs& in) {
  const std::int64_t per_epoch = unit_of(in.run.loss, in.lengths).in_epoch;
  const std::int64_t batch = in.run.batch_size;
  // The last, partial batch of an epoch is dropped; n_examples is looked at only after a full batch.
  const std::int64_t epoch_batches = per_epoch / batch;
  std::int64_t batches = in.run.n_epochs ? epoch_batches * *in.run.n_epochs : INT64_MAX / batch;
  if (in.run.n_examples) batches = std::min(batches, (*in.run.n_examples + batch - 1) / batch);
  return batches * batch;
}

// Sampling is bound by reading the weights once per token, for the policy and the reference.
double sampling_seconds(const Case& c) {
  const config::RunConfig& run = c.in.run;
  if (!run.sample_during_eval) return 0;
  const double batches = std::ceil(to_double(run.n_eval_model_samples) / to_double(run.eval_batch_size));
  const double new_tokens =
      std::max(0.0, to_double(run.max_length) - (c.example.mean - c.example.response_mean));
  const double models = needs_reference(run.loss) ? 2 : 1;
  const double weights = to_double(c.in.table->count() * c.precision.weights);
  return batches * models * new_tokens * weights / c.in.machine.device.memory_bandwidth;
}

void add_whole_run(Timing& t, const Case& c, std::int64_t eval_every) {
  const config::RunConfig& run = c.in.run;
  t.examples = examples_of_run(c.in);
  t.updates = t.examples / run.batch_size;
  t.evaluations = (t.updates > 0 ? (t.examples - 1) / eval_every : 0) + (run.do_first_eval ? 1 : 0);
  t.training_hours = to_double(t.updates) * t.step / 3600;
  const double per_example = (forward_pass(c, c.precision.weights) + reference_pass(c)).elapsed / c.examples /
                             to_double(c.data_ranks);
  const double evaluation = per_example * to_double(run.n_eval_examples) + sampling_seconds(c);
  t.evaluation_hours = to_double(t.evaluations) * evaluation / 3600;
  if (c.reference == Reference::cached) {
    const auto rows = std::min(t.examples, unit_of(run.loss, c.in.lengths).in_epoch);
    t.reference_hours =
        reference_pass(c).elapsed / c.examples / to_double(c.data_ranks) * to_double(rows) / 3600;
  }
  const double devices = c.in.machine.device.is_cpu ? 1 : to_double(c.ranks);
  t.energy_kwh = t.total_hours() * c.in.machine.device.watts * devices / 1000;
  t.cost_usd = t.total_hours() * c.in.machine.device.usd_per_hour * devices;
}

}  // namespace

Timing timing_of(const Case& c, std::int64_t eval_every) {
  Timing t;
  t.microbatch = training_pass(c);
  if (c.reference == Reference::live) t.microbatch = t.microbatch + reference_pass(c);
  t.optimizer = optimizer_seconds(c);
  t.step = to_double(c.in.run.gradient_accumulation_steps) * t.microbatch.elapsed + t.optimizer;
  const double batch = to_double(c.in.run.batch_size);
  t.examples_per_second = batch / t.step;
  t.tokens_per_second = batch * c.example.mean / t.step;
  double forward = 0;
  for (const Block& block : c.in.table->blocks) forward += forward_flops(c, block);
  const double useful = 3 * forward / c.examples * batch;  // recomputation and the reference do not count
  const Device& device = c.in.machine.device;
  t.model_flops_utilization =
      useful / t.step / ((c.precision.half ? device.half_rate : device.single_rate) * to_double(c.ranks));
  t.threshold = token_threshold(c);
  add_whole_run(t, c, eval_every);
  return t;
}

}  // namespace dpo::plan
