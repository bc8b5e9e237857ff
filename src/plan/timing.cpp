#include "plan/timing.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "loss/loss.h"
#include "model/tables/recompute.h"
#include "plan/memory.h"

namespace dpo::plan {
namespace {

using model::Block;
using model::BlockKind;

// FLOP/s that training reaches.
double rate_of(const Workload& w, bool bf16) { return w.machine.device.training_flops(bf16); }

double flops_per_second(const Workload& w) { return rate_of(w, w.precision.bf16); }

// Floating-point operations of one block's forward pass over the microbatch: matrix products, attention.
double product_flops(const Workload& w, const Block& block) {
  switch (block.kind) {
    case BlockKind::embedding: return 0;
    case BlockKind::layer: return 2 * to_double(block.matmul_count()) * w.tokens;
    case BlockKind::head: return 2 * to_double(w.in.table->head_matmul_count) * w.response_rows;
  }
  return 0;
}

double attention_flops(const Workload& w, const Block& block) {
  return block.kind == BlockKind::layer ? 4 * to_double(w.in.shape.query_width()) * w.attended : 0;
}

double forward_flops(const Workload& w, const Block& block) {
  return product_flops(w, block) + attention_flops(w, block);
}

// Collectives that overlap with compute still take multiprocessors and memory bandwidth. Two public
// measurements on H200s (89 % efficiency over 2 GPUs at 8k tokens each, 93 % over 4 at 16k) give this share.
constexpr double kInterference = 0.8;

double overlapped(double compute, double communication) {
  return std::max(compute, communication) + kInterference * std::min(compute, communication);
}

// A forward pass of a block on a GPU. Products reach a steady share of the peak, attention a third of that.
// What lies between them (norms, activations, rotary embedding, additions, short attention) is bound by
// memory: bytes per token and hidden element, in 16 bits. Launches take some time for each block, and the
// host for each microbatch. Fitted to 17 updates on an H200, of Pythia-70M to -2.8B, Llama-3.2-1B and 3.1-8B,
// Qwen2.5 and 3 and OLMoE, with 200 to 2,000 tokens an example, with and without LoRA: all within 6 %.
constexpr double kAttentionRate = 1.0 / 3;
constexpr double kBytesPerElement = 140;
constexpr double kBlockSecondsOnGpu = 50e-6, kMicrobatchSecondsOnGpu = 5e-3;
// The share of the rate that products with experts reach: OLMoE-1B-7B on an H200.
constexpr double kExpertsEfficiency = 0.46;

double activation_traffic(const Workload& w, double bytes_in_16_bits) {
  return w.tokens * bytes_in_16_bits * to_double(w.precision.weights) / 2 / w.machine.device.memory_bandwidth;
}

// Seconds of a block's forward pass: of its products, and of what lies between them.
struct BlockTime {
  double products = 0, rest = 0;
};

// Tensor-parallel ranks split products and attention, but about half of what lies between them each has
// whole: norms, additions, inputs of layers (an estimate).
BlockTime block_time_on_gpu(const Workload& w, const Block& block) {
  const double rate = w.machine.device.product_flops(w.precision.bf16), ranks = to_double(w.mesh.tensor);
  const bool is_layer = block.kind == BlockKind::layer;
  const double experts = is_layer && w.in.shape.experts > 0 ? kExpertsEfficiency : 1;
  const double bytes = is_layer ? kBytesPerElement * to_double(w.in.shape.hidden) : 0;
  return {product_flops(w, block) / (rate * experts) / ranks,
          attention_flops(w, block) / (rate * kAttentionRate) / ranks +
              activation_traffic(w, bytes) * (0.5 + 0.5 / ranks) + kBlockSecondsOnGpu};
}

// The same on a CPU, and what a layer costs there besides its matrix products: norms, activation, softmax and
// attention over short texts, in operations at the float32 rate per token, and per token and hidden element.
// Fitted to one thread of a Neoverse V1 in float32, hidden sizes of 32 to 512 and 30 to 1440
// tokens: 16 steps within 13 %.
constexpr double kBlockSecondsOnCpu = 0.28e-3;
constexpr double kOperationsPerToken = 240e3, kOperationsPerElement = 4600;

BlockTime block_time_on_cpu(const Workload& w, const Block& block) {
  const double products = forward_flops(w, block) / flops_per_second(w) / to_double(w.mesh.tensor);
  if (block.kind != BlockKind::layer) return {products, kBlockSecondsOnCpu};
  const double each = kOperationsPerToken + kOperationsPerElement * to_double(w.in.shape.hidden);
  return {products,
          kBlockSecondsOnCpu + w.tokens * each / to_double(w.mesh.tensor) / rate_of(w, /*bf16=*/false)};
}

// Of a rank that has its part of the block.
BlockTime block_time(const Workload& w, const Block& block) {
  return w.machine.device.is_cpu ? block_time_on_cpu(w, block) : block_time_on_gpu(w, block);
}

// Share of the bytes that a ring exchange sends over its links.
double ring_share(std::int64_t ranks) { return to_double(ranks - 1) / to_double(ranks); }

double shard_bus(const Workload& w) { return w.machine.bus(w.mesh.shard * w.mesh.tensor); }

double parameters_of_tensor_rank(const Workload& w, const Block& block) {
  return to_double(block.count_on_rank(w.mesh.tensor));
}

enum class Way { forward, backward };

// The work of a pass in one block.
struct Direction {
  bool backward = false;
  bool recomputes = false;  // a layer repeats its forward pass first
};

Direction direction_of(const Workload& w, Way way, std::size_t block) {
  if (way == Way::forward) return {};
  const bool is_layer = w.in.table->blocks[block].kind == BlockKind::layer;
  return {.backward = true,
          .recomputes = is_layer && model::is_recomputed(static_cast<std::int64_t>(block) - 1,
                                                         w.recomputed_layers, w.in.shape.layers)};
}

// Operations of a direction in multiples of the forward pass's. The gradients of a layer's input and of its
// weights cost as much as it, each; frozen weights have none. Only layers are recomputed, but the head
// computes its logits again.
double work_of(const Direction& direction, const Block& block, bool is_frozen) {
  if (!direction.backward) return 1;
  if (block.kind != BlockKind::layer) return 2;
  return (is_frozen ? 1 : 2) + (direction.recomputes ? 1 : 0);
}

// Rows of hidden states that tensor-parallel ranks all-reduce in one direction of a block's pass: two per
// token for a layer, one for the embedding's output and one for the gradient of the head's input. A
// recomputed layer repeats those of its forward pass.
double tensor_rows(const Workload& w, BlockKind kind, const Direction& direction) {
  switch (kind) {
    case BlockKind::embedding: return direction.backward ? 0 : w.tokens;
    case BlockKind::layer: return (direction.recomputes ? 4 : 2) * w.tokens;
    case BlockKind::head: return direction.backward ? w.response_rows : 0;
  }
  return 0;
}

double tensor_seconds(const Workload& w, BlockKind kind, const Direction& direction) {
  const double row = to_double(w.in.shape.hidden * w.precision.weights);
  return 2 * tensor_rows(w, kind, direction) * row * ring_share(w.mesh.tensor) / w.machine.bus(w.mesh.tensor);
}

// DoRA reads each of its matrices twice whenever it computes with them: for the norms of their rows, and for
// what the adapter changes of them.
double norm_seconds(const Workload& w, const Direction& direction, std::size_t block) {
  constexpr std::string_view kMagnitude = ".lora_magnitude_vector";
  if (direction.backward && !direction.recomputes) return 0;
  double elements = 0;
  for (const model::TensorInfo& added : w.in.adapter->blocks[block].tensors)
    for (const model::TensorInfo& tensor : w.in.table->blocks[block].tensors)
      if (added.name.ends_with(kMagnitude) &&
          tensor.name == added.name.substr(0, added.name.size() - kMagnitude.size()) + ".weight")
        elements += to_double(tensor.count());
  return 2 * elements * to_double(w.precision.weights) / to_double(w.mesh.tensor) /
         w.machine.device.memory_bandwidth;
}

// Bytes in 16 bits that an adapter's products move per token: A reads its input; B's result is added to what
// the matrix gave, which is read and written.
double adapter_bytes(const Block& added) {
  double elements = 0;
  for (const model::TensorInfo& tensor : added.tensors) {
    if (tensor.name.ends_with(".lora_A.weight")) elements += to_double(tensor.shape[1]);
    if (tensor.name.ends_with(".lora_B.weight")) elements += 2 * to_double(tensor.shape[0]);
  }
  return 2 * elements;
}

// Seconds of an adapter in a direction of a layer's pass.
double adapter_seconds(const Workload& w, const Direction& direction, std::size_t block) {
  if (!w.in.adapter) return 0;
  const Block& added = w.in.adapter->blocks[block];
  const Device& device = w.machine.device;
  const double products = 2 * to_double(added.matmul_count()) * w.tokens /
                          (device.is_cpu ? flops_per_second(w) : device.product_flops(w.precision.bf16));
  const double between = device.is_cpu ? 0 : activation_traffic(w, adapter_bytes(added));
  return norm_seconds(w, direction, block) +
         work_of(direction, added, /*is_frozen=*/false) * (products + between) / to_double(w.mesh.tensor);
}

// Matrices in few bits are read, and written in the dtype that they are computed in, once in each direction.
double expanding_seconds(const Workload& w, const Block& block) {
  if (!w.in.run.adapter.base_dtype) return 0;
  const double bytes = bytes_of_code(w) + to_double(w.precision.weights);
  return small_parameters(w, block) * bytes / w.machine.device.memory_bandwidth;
}

// Bytes that shard ranks gather of a block: its values, `each` bytes for one, or what is kept in few bits.
double bytes_to_gather(const Workload& w, const Block& block, double each) {
  return w.in.run.adapter.base_dtype ? block_bytes(w, block) : each * parameters_of_tensor_rank(w, block);
}

// One pass over the blocks. `gathered`, `reduced`: bytes of a value that shard ranks gather of the model, and
// that they reduce of what is trained.
MicrobatchTime pass(const Workload& w, Way way, double gathered, double reduced) {
  const double moved = ring_share(w.mesh.shard) / shard_bus(w);  // seconds per byte
  const auto shard_seconds = [&](std::size_t i) {
    return moved * (bytes_to_gather(w, w.in.table->blocks[i], gathered) +
                    reduced * parameters_of_tensor_rank(w, w.in.trained().blocks[i]));
  };
  MicrobatchTime sum;
  for (std::size_t i = 0; i < w.in.table->blocks.size(); ++i) {
    const Block& block = w.in.table->blocks[i];
    const Direction direction = direction_of(w, way, i);
    const double times = work_of(direction, block, w.in.adapter != nullptr);
    const BlockTime forward = block_time(w, block);
    const double compute =
        times * forward.products + work_of(direction, block, /*is_frozen=*/false) * forward.rest +
        (block.kind == BlockKind::layer ? adapter_seconds(w, direction, i) : 0) + expanding_seconds(w, block);
    const double tensor = tensor_seconds(w, block.kind, direction);  // needed at once: nothing hides it
    sum.compute += compute;
    sum.product_flops += times * product_flops(w, block) / to_double(w.mesh.tensor);
    sum.attention_flops += times * attention_flops(w, block) / to_double(w.mesh.tensor);
    sum.communication += shard_seconds(i) + tensor;
    sum.elapsed += overlapped(compute, shard_seconds(i)) + tensor;
  }
  // Nothing hides the first gather of a pass, or the last reduce-scatter.
  sum.elapsed += shard_seconds(0);
  return sum;
}

MicrobatchTime forward_pass(const Workload& w, std::int64_t weight_bytes) {
  return pass(w, Way::forward, to_double(weight_bytes), 0);
}

MicrobatchTime training_pass(const Workload& w) {
  const std::int64_t reduced = accumulates_unsharded(w) ? 0 : w.precision.reduction;
  return forward_pass(w, w.precision.weights) +
         pass(w, Way::backward, to_double(w.precision.weights), to_double(reduced));
}

// An offloaded reference is copied from the host while it computes; nothing hides its first block.
MicrobatchTime reference_pass(const Workload& w) {
  if (!needs_reference(w.in.run.loss)) return {};
  MicrobatchTime pass = forward_pass(w, w.precision.reference);
  if (!offloads_reference(w)) return pass;
  const double first = parameters_of_tensor_rank(w, w.in.table->blocks.front()) *
                       to_double(w.precision.reference) / w.machine.device.host_link;
  pass.elapsed = first + std::max(pass.elapsed, reference_bytes(w) / w.machine.device.host_link - first);
  return pass;
}

// Extra scoring without gradients: KTO scores every prompt with the responses of another example; a loss that
// compares examples scores the whole batch before its gradients.
MicrobatchTime scoring_pass(const Workload& w) {
  MicrobatchTime pass = forward_pass(w, w.precision.weights);
  if (w.reference == ReferenceMode::live) pass = pass + reference_pass(w);
  return pass;
}

loss::Options loss_of(const Workload& w) { return {.name = w.in.run.loss.name}; }

// Bound by memory: gradients are read twice (norm, update), master weights and optimizer state read and
// written, 16-bit weights written.
double optimizer_seconds(const Workload& w) {
  const Precision& p = w.precision;
  const model::TensorTable& trained = w.in.trained();
  const double state = optimizer_values(w.in.run.optimizer, trained) / to_double(trained.count());
  const double copy = p.master > 0 ? to_double(p.weights) : 0;
  const double stored = p.master > 0 ? to_double(p.master) : to_double(p.weights);
  const double bytes = 2 * to_double(p.gradients) + copy + 2 * stored + 2 * state * p.state;
  // Finding the code of a value is arithmetic: 10 ps on an H200, for AdamW's two.
  constexpr double kOperationsPerCode = 335;
  const bool has_codes =
      w.in.run.optimizer_state == config::OptimizerState::eight_bit && !w.machine.device.is_cpu;
  const double codes = has_codes ? state * kOperationsPerCode / w.machine.device.fp32_flops : 0;
  const double seconds =
      resident_parameters(w, trained) * (bytes / w.machine.device.memory_bandwidth + codes);
  // Offloaded state is copied to the device and back at the same time.
  return offloads_optimizer(w) ? std::max(seconds, optimizer_bytes(w) / w.machine.device.host_link) : seconds;
}

// Gradients that are reduced once per update, after its last microbatch: over shards where they were
// accumulated unsharded, and each rank's part over replicas.
double gradient_reduction_seconds(const Workload& w) {
  const double bytes = to_double(w.precision.gradients);
  double seconds = 0;
  if (accumulates_unsharded(w))
    for (const Block& block : w.in.trained().blocks)
      seconds += ring_share(w.mesh.shard) * parameters_of_tensor_rank(w, block) * bytes / shard_bus(w);
  return seconds + 2 * ring_share(w.mesh.replica) * resident_parameters(w, w.in.trained()) * bytes /
                       w.machine.bus(w.mesh.ranks());
}

TokenThreshold token_threshold(const Workload& w) {
  if (w.mesh.shard == 1) return {};
  // The backward pass gathers and reduce-scatters these bytes per parameter, and computes 4 operations per
  // parameter and token; with frozen weights it only gathers, and computes 2.
  const bool is_frozen = w.in.adapter != nullptr;
  const double bytes = w.in.run.adapter.base_dtype
                           ? bytes_per_parameter(w)
                           : to_double(w.precision.weights + (is_frozen ? 0 : w.precision.reduction));
  // Of a mixture of experts all parameters are gathered, but a token is multiplied by the active ones only.
  const double idle = to_double(w.in.table->count()) / to_double(w.in.table->active_count());
  const double scale_well =
      idle * bytes / (is_frozen ? 2 : 4) * ring_share(w.mesh.shard) * flops_per_second(w) / shard_bus(w);
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

// Samples of one model, all prompts in one batch: bound by reading or gathering the weights once per token,
// or by computing.
double sampling_seconds(const Workload& w) {
  const config::RunConfig& run = w.in.run;
  if (!run.sample_during_eval) return 0;
  const double new_tokens =
      std::max(0.0, to_double(run.max_length) - (w.example.mean - w.example.response_mean));
  const double weight = to_double(w.precision.weights);
  const double active = to_double(w.in.table->active_count()) / to_double(w.mesh.tensor);
  const double texts = to_double(std::min(run.n_eval_model_samples, evaluation_of(w.in).examples));
  const double reading =
      to_double(w.in.table->count()) / to_double(w.mesh.tensor) * weight / w.machine.device.memory_bandwidth;
  double expanding = 0, gathering = 0;
  for (const Block& block : w.in.table->blocks) {
    expanding += expanding_seconds(w, block);
    gathering += bytes_to_gather(w, block, weight) * ring_share(w.mesh.shard) / shard_bus(w);
  }
  return new_tokens * (expanding + std::max({reading, gathering, active * 2 * texts / flops_per_second(w)}));
}

std::int64_t count_evaluations(const Timing& t, const Workload& w,
                               const std::optional<std::int64_t>& eval_every) {
  if (!eval_every) return 0;
  return t.examples / *eval_every + (w.in.run.do_first_eval ? 1 : 0);
}

// The host's part of a microbatch.
double host_seconds(const Workload& w) { return w.machine.device.is_cpu ? 0 : kMicrobatchSecondsOnGpu; }

// Seconds of a forward pass of the policy, or of the reference, over so many examples on all ranks.
double seconds_of(const MicrobatchTime& pass, const Workload& w, std::int64_t examples) {
  return (pass.elapsed + host_seconds(w)) / w.examples / to_double(w.mesh.data_ranks()) * to_double(examples);
}

double evaluation_seconds(const Workload& w) {
  const double passes = loss::is_unpaired(loss_of(w)) ? 2 : 1;
  return passes * seconds_of(scoring_pass(w), w, evaluation_of(w.in).examples) + sampling_seconds(w);
}

// What the reference computes before the run: its samples, and its scores where they are cached.
double reference_seconds(const Workload& w, const Timing& t) {
  if (w.reference == ReferenceMode::none) return 0;
  double seconds = t.evaluations > 0 ? sampling_seconds(w) : 0;
  if (w.reference != ReferenceMode::cached) return seconds;
  const std::int64_t rows = std::min(t.examples, unit_of(w.in.run.loss, w.in.lengths).in_epoch);
  const std::int64_t evaluated = t.evaluations > 0 ? evaluation_of(w.in).examples : 0;
  return seconds + seconds_of(reference_pass(w), w, rows + evaluated);
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
  const double devices = to_double(w.devices());
  t.energy_kwh = t.total_hours() * w.machine.device.watts * devices / 1000;
  t.cost_usd = t.total_hours() * w.machine.device.usd_per_hour * devices;
}

}  // namespace

Timing timing_of(const Workload& w, const Intervals& intervals) {
  Timing t;
  t.microbatch = training_pass(w);
  if (w.reference == ReferenceMode::live) t.microbatch = t.microbatch + reference_pass(w);
  for (const bool scores : {loss::is_unpaired(loss_of(w)), loss::needs_whole_batch(loss_of(w))})
    if (scores) t.microbatch = t.microbatch + scoring_pass(w);
  t.microbatch.elapsed += host_seconds(w);
  t.optimizer = optimizer_seconds(w);
  t.gradient_reduction = gradient_reduction_seconds(w);
  t.update = to_double(w.in.run.gradient_accumulation_steps) * t.microbatch.elapsed + t.gradient_reduction +
             t.optimizer;
  const double batch = to_double(w.in.run.batch_size);
  t.examples_per_second = batch / t.update;
  t.tokens_per_second = batch * w.example.mean / t.update;
  double forward = 0;
  for (const Block& block : w.in.table->blocks) forward += forward_flops(w, block);
  // Without recomputation and reference; frozen weights have no gradients.
  const double useful = (w.in.adapter ? 2 : 3) * forward / w.examples * batch;
  const Device& device = w.machine.device;
  const double peak = w.precision.bf16 ? device.bf16_flops : device.fp32_flops;
  t.model_flops_utilization = useful / t.update / (peak * to_double(w.devices()));
  const double microbatches = to_double(w.in.run.gradient_accumulation_steps);
  t.least_products = microbatches * t.microbatch.product_flops / peak;
  t.least_attention = microbatches * t.microbatch.attention_flops / peak;
  t.threshold = token_threshold(w);
  add_whole_run(t, w, intervals);
  return t;
}

}  // namespace dpo::plan
