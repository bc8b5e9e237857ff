#include "plan/passes.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "model/spec/cost.h"
#include "model/spec/recompute.h"
#include "plan/fp8.h"
#include "plan/memory.h"
#include "plan/reshard.h"

namespace dpo::plan {
namespace {

using model::Block;
using model::BlockKind;

// Return the floating-point operations of the matmuls, and of the attention, in one block's forward pass over
// the microbatch.
double matmul_flops(const Workload& w, const Block& block) {
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

// Collectives that overlap with compute still take multiprocessors and memory bandwidth. Two public
// measurements on H200s (89 % efficiency over 2 GPUs at 8k tokens each, 93 % over 4 at 16k) give this share.
constexpr double kInterference = 0.8;

// Constants for the time of a block's forward pass on a GPU. Matmuls reach a steady share of the peak,
// attention a part of that. The operations between them (norms, activations, rotary embedding, additions,
// short attention) are bound by memory: bytes per token and hidden element, in 16 bits. Launches take some
// time for each block, and the host for each microbatch. The constants were fitted to 17 updates on an H200,
// of Pythia-70M to -2.8B, Llama-3.2-1B and 3.1-8B and Qwen2.5 and 3, with 200 to 2,000 tokens an example.
// Tests hold all of them within 10 %, and 7 of earlier versions.
using model::kAttentionRate;
constexpr double kBytesPerElement = 110;
constexpr double kBlockSecondsOnGpu = 10e-6;
// Share of the rate that matmuls with experts reach: OLMoE-1B-7B on an H200.
constexpr double kExpertsEfficiency = 0.46;

// Returns the seconds of this many bytes of memory traffic in 16 bits.
double traffic(const Workload& w, double bytes_in_16_bits) {
  return bytes_in_16_bits * to_double(w.bytes.weights) / 2 / w.machine.device.memory_bandwidth;
}

// Returns the memory traffic of a forward pass outside of matmuls: the operations between a layer's matmuls,
// and the logits, which are read once (and once more, and written, in the backward pass).
double activation_bytes(const Workload& w, const Block& block) {
  switch (block.kind) {
    case BlockKind::embedding: return 0;
    case BlockKind::layer: return kBytesPerElement * to_double(w.in.shape.hidden) * w.tokens;
    case BlockKind::head: return 2 * to_double(w.in.shape.vocabulary) * w.response_rows;
  }
  return 0;
}

// Returns the floating-point operations of a forward pass that are FP8 matmuls.
double fp8_flops(const Workload& w, const Block& block) { return 2 * fp8_parameters(w, block) * w.tokens; }

// Seconds of a block's forward pass. `weight_gradients` is the time of the same matmuls without FP8, which is
// how long the weight gradients take.
struct BlockTime {
  double matmuls = 0, weight_gradients = 0, rest = 0;
};

// Tensor-parallel ranks split matmuls and attention. Each rank computes about half of the rest whole (an
// estimate): norms, additions, inputs of layers.
BlockTime block_time_on_gpu(const Workload& w, const Block& block) {
  const double rate = w.machine.device.matmul_flops(w.bytes.in_16_bits()), ranks = to_double(w.mesh.tensor);
  const bool is_layer = block.kind == BlockKind::layer;
  const double experts = is_layer && w.in.shape.experts > 0 ? kExpertsEfficiency : 1;
  const double matmuls = matmul_flops(w, block) / (rate * experts) / ranks, in_fp8 = fp8_flops(w, block);
  const double saved = in_fp8 > 0 ? in_fp8 / rate - in_fp8 / fp8_matmul_flops(w.machine.device) : 0;
  return {matmuls - saved, matmuls,
          attention_flops(w, block) / (rate * kAttentionRate) / ranks +
              traffic(w, activation_bytes(w, block)) * (is_layer ? 0.5 + 0.5 / ranks : 1 / ranks) +
              kBlockSecondsOnGpu};
}

// Constants for the time of a block on a CPU: seconds per block, and the work of a layer in addition to its
// matmuls (norms, activation, softmax, attention over short texts). That work is counted as operations at the
// float32 rate, per token and per token and hidden element. The constants were fitted to 16 steps on one
// thread of a Neoverse V1 in float32 (hidden sizes 32 to 512, 30 to 1440 tokens), and are within 13 % of all.
constexpr double kBlockSecondsOnCpu = 0.28e-3;
constexpr double kOperationsPerToken = 240e3, kOperationsPerElement = 4600;

BlockTime block_time_on_cpu(const Workload& w, const Block& block) {
  const double matmuls = forward_flops(w, block) / flops_per_second(w) / to_double(w.mesh.tensor);
  if (block.kind != BlockKind::layer) return {matmuls, matmuls, kBlockSecondsOnCpu};
  const double fp32 = w.machine.device.training_flops(/*bf16=*/false);  // rate of FP8 matmuls too
  const double added = fp8_flops(w, block) * (1 / fp32 - 1 / flops_per_second(w));
  const double each = kOperationsPerToken + kOperationsPerElement * to_double(w.in.shape.hidden);
  return {matmuls + added, matmuls, kBlockSecondsOnCpu + w.tokens * each / to_double(w.mesh.tensor) / fp32};
}

// Returns the time of a rank that has its part of the block.
BlockTime block_time(const Workload& w, const Block& block) {
  return w.machine.device.is_cpu ? block_time_on_cpu(w, block) : block_time_on_gpu(w, block);
}

enum class Way { forward, backward };

// The work of a pass in one block.
struct Direction {
  bool backward = false;
  bool recomputes = false;  // a layer repeats its forward pass first
};

Direction direction_of(const Workload& w, Way way, std::size_t block) {
  if (way == Way::forward) return {};
  return {
      .backward = true,
      .recomputes = model::is_recomputed(w.in.table->blocks[block], w.recomputed_layers, w.in.shape.layers)};
}

// Returns the work of a direction relative to one forward pass. The gradients of a layer's input and of its
// weights cost one forward pass each; frozen weights have no gradients; recomputing a layer adds one. The
// head counts as two: a trained head's recomputed logits are not included.
double work_of(const Direction& direction, const Block& block, bool is_frozen) {
  if (!direction.backward) return 1;
  if (block.kind != BlockKind::layer) return 2;
  return (is_frozen ? 1 : 2) + (direction.recomputes ? 1 : 0);
}

double quantizing_in_direction(const Workload& w, const Block& block, const Direction& direction) {
  const bool forward = !direction.backward || direction.recomputes;
  return (forward ? quantizing_seconds(w, block, /*backward=*/false) : 0) +
         (direction.backward ? quantizing_seconds(w, block, /*backward=*/true) : 0);
}

// Returns the rows of hidden states that tensor-parallel ranks all-reduce in one direction of a block's pass:
// two per token for a layer, one for the embedding's output and one for the gradient of the head's input. A
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
  const double row = to_double(w.in.shape.hidden * w.bytes.weights);
  return 2 * tensor_rows(w, kind, direction) * row * ring_share(w.mesh.tensor) / w.machine.bus(w.mesh.tensor);
}

// Returns the seconds in which DoRA reads its matrices. It reads each twice whenever it computes with them:
// for the norms of their rows, and for the adapter's change of these norms.
double norm_seconds(const Workload& w, const Direction& direction, std::size_t block) {
  constexpr std::string_view kMagnitude = ".lora_magnitude_vector";
  if (direction.backward && !direction.recomputes) return 0;
  double elements = 0;
  for (const model::TensorInfo& added : w.in.adapter->blocks[block].tensors)
    for (const model::TensorInfo& tensor : w.in.table->blocks[block].tensors)
      if (added.name.ends_with(kMagnitude) &&
          tensor.name == added.name.substr(0, added.name.size() - kMagnitude.size()) + ".weight")
        elements += to_double(tensor.count());
  return 2 * elements * to_double(w.bytes.weights) / to_double(w.mesh.tensor) /
         w.machine.device.memory_bandwidth;
}

// Returns the bytes in 16 bits that an adapter's matmuls move per token. A reads its input. B's result is
// added to the output of the matrix, which is read and written.
double adapter_bytes(const Block& added) {
  double elements = 0;
  for (const model::TensorInfo& tensor : added.tensors) {
    if (tensor.name.ends_with(".lora_A.weight")) elements += to_double(tensor.shape[1]);
    if (tensor.name.ends_with(".lora_B.weight")) elements += 2 * to_double(tensor.shape[0]);
  }
  return 2 * elements;
}

// Returns the seconds of an adapter in a direction of a layer's pass.
double adapter_seconds(const Workload& w, const Direction& direction, std::size_t block) {
  if (!w.in.adapter) return 0;
  const Block& added = w.in.adapter->blocks[block];
  const Device& device = w.machine.device;
  const double matmuls = 2 * to_double(added.matmul_count()) * w.tokens /
                         (device.is_cpu ? flops_per_second(w) : device.matmul_flops(w.bytes.in_16_bits()));
  const double between = device.is_cpu ? 0 : traffic(w, w.tokens * adapter_bytes(added));
  return norm_seconds(w, direction, block) +
         work_of(direction, added, /*is_frozen=*/false) * (matmuls + between) / to_double(w.mesh.tensor);
}

// Shard ranks gather `bytes` for each value of the model in a share of the passes.
struct Gathered {
  double bytes = 0, share = 1;
};

// Returns the mean time of a pass over the blocks. Shard ranks also reduce `reduced` bytes for each value of
// the trained tensors.
MicrobatchTime pass(const Workload& w, Way way, const Gathered& gathered, double reduced) {
  const double moved = ring_share(w.mesh.shard) / shard_bus(w);  // seconds per byte
  const auto gather_seconds = [&](std::size_t i) {
    return moved * bytes_to_gather(w, w.in.table->blocks[i], gathered.bytes);
  };
  const auto reduce_seconds = [&](std::size_t i) {
    return moved * reduced * parameters_of_tensor_rank(w, w.in.trained().blocks[i]);
  };
  MicrobatchTime sum;
  for (std::size_t i = 0; i < w.in.table->blocks.size(); ++i) {
    const Block& block = w.in.table->blocks[i];
    const Direction direction = direction_of(w, way, i);
    const double times = work_of(direction, block, w.in.adapter != nullptr);
    const double gradients = direction.backward && !w.in.adapter ? 1 : 0;  // of weights, included in `times`
    const BlockTime forward = block_time(w, block);
    const double compute = (times - gradients) * forward.matmuls + gradients * forward.weight_gradients +
                           quantizing_in_direction(w, block, direction) +
                           work_of(direction, block, /*is_frozen=*/false) * forward.rest +
                           (block.kind == BlockKind::layer ? adapter_seconds(w, direction, i) : 0) +
                           expanding_seconds(w, block);
    const double tensor = tensor_seconds(w, block.kind, direction);  // not overlapped: needed immediately
    sum.compute += compute;
    sum.matmul_flops += times * matmul_flops(w, block) / to_double(w.mesh.tensor);
    sum.fp8_flops += (times - gradients) * fp8_flops(w, block);
    sum.attention_flops += times * attention_flops(w, block) / to_double(w.mesh.tensor);
    const double gather = gather_seconds(i), reduce = reduce_seconds(i);
    sum.communication += gathered.share * gather + reduce + tensor;
    sum.elapsed += gathered.share * overlapped(compute, gather + reduce) +
                   (1 - gathered.share) * overlapped(compute, reduce) + tensor;
  }
  // Nothing hides the first gather of a pass, or the last reduce-scatter.
  sum.elapsed += gathered.share * gather_seconds(0) + reduce_seconds(0);
  return sum;
}

MicrobatchTime forward_pass(const Workload& w, std::int64_t weight_bytes, double gathering_share) {
  return pass(w, Way::forward, {to_double(weight_bytes), gathering_share}, 0);
}

}  // namespace

double overlapped(double compute, double communication) {
  return std::max(compute, communication) + kInterference * std::min(compute, communication);
}

double flops_per_second(const Workload& w) { return w.machine.device.training_flops(w.bytes.in_16_bits()); }

double forward_flops(const Workload& w, const Block& block) {
  return matmul_flops(w, block) + attention_flops(w, block);
}

double ring_share(std::int64_t ranks) { return to_double(ranks - 1) / to_double(ranks); }

double shard_bus(const Workload& w) { return w.machine.bus(w.mesh.shard * w.mesh.tensor, w.mesh.tensor); }

double parameters_of_tensor_rank(const Workload& w, const Block& block) {
  return to_double(block.count_on_rank(w.mesh.tensor));
}

double expanding_seconds(const Workload& w, const Block& block) {
  if (!w.in.run.adapter.base_dtype) return 0;
  const double bytes = bytes_of_code(w) + to_double(w.bytes.weights);
  return quantized_parameters(w, block) * bytes / w.machine.device.memory_bandwidth;
}

double bytes_to_gather(const Workload& w, const Block& block, double each) {
  return w.in.run.adapter.base_dtype ? block_bytes(w, block) : each * parameters_of_tensor_rank(w, block);
}

MicrobatchTime backward_pass(const Workload& w) {
  const std::int64_t reduced = w.storage.accumulates_unsharded ? 0 : w.bytes.reduction;
  return pass(w, Way::backward, {to_double(w.bytes.weights), gathering_passes(w).backward},
              to_double(reduced));
}

MicrobatchTime training_pass(const Workload& w) {
  return forward_pass(w, w.bytes.weights, gathering_passes(w).forward) + backward_pass(w);
}

// An offloaded reference is copied from the host while it computes; nothing hides its first block.
MicrobatchTime reference_pass(const Workload& w) {
  if (!uses_reference(w.in.run.loss)) return {};
  MicrobatchTime pass = forward_pass(w, w.bytes.reference, gathering_passes(w).reference);
  if (!offloads_reference(w)) return pass;
  const double first = parameters_of_tensor_rank(w, w.in.table->blocks.front()) *
                       to_double(w.bytes.reference) / w.machine.device.host_link;
  pass.elapsed = first + std::max(pass.elapsed, reference_bytes(w) / w.machine.device.host_link - first);
  return pass;
}

MicrobatchTime policy_pass(const Workload& w) {
  return forward_pass(w, w.bytes.weights, gathering_passes(w).scoring);
}

MicrobatchTime scoring_pass(const Workload& w) {
  MicrobatchTime pass = policy_pass(w);
  if (w.reference == ReferenceMode::live) pass = pass + reference_pass(w);
  return pass;
}

}  // namespace dpo::plan
