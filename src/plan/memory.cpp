#include "plan/memory.h"

#include <algorithm>
#include <cmath>

#include "base/number_formats.h"
#include "base/quantity.h"
#include "model/spec/layout.h"
#include "plan/fp8.h"
#include "plan/reshard.h"

namespace dpo::plan {
namespace {

constexpr double kUsable = 0.97;  // of a device's memory; the driver keeps the rest

using model::Block;
using model::BlockKind;

// Returns the size of a block on the fullest rank of the mesh.
model::BlockSize block_on_rank(const Workload& w, const Block& block) {
  model::Layout layout;
  layout.tensor_ranks = w.mesh.tensor;
  layout.shard_ranks = w.mesh.shard;
  return model::block_size(block, layout);
}

// Returns the parameters that a tensor-parallel rank trains, before sharding.
double unsharded_parameters(const Workload& w) {
  double sum = 0;
  for (const Block& block : w.in.trained().blocks) sum += unsharded_on_rank(w, block);
  return sum;
}

// Returns the sum of `amount` over the blocks on the fullest of `devices` devices.
template <class Amount>
double fullest_of_spread(const model::TensorTable& table, std::int64_t devices, const Amount& amount) {
  const std::vector<std::size_t> device_of = model::spread_blocks(table, static_cast<std::size_t>(devices));
  std::vector<double> held(static_cast<std::size_t>(devices));
  for (std::size_t i = 0; i < device_of.size(); ++i) held[device_of[i]] += amount(table.blocks[i]);
  return std::ranges::max(held);
}

bool has_tensor(const model::TensorTable& table, const std::string& name) {
  return std::ranges::any_of(table.blocks, [&](const Block& block) {
    return std::ranges::any_of(block.tensors,
                               [&](const model::TensorInfo& tensor) { return tensor.name == name; });
  });
}

// True if the head's matrix is the embedding's.
bool is_tied(const model::TensorTable& table) { return !has_tensor(table, table.head_name); }

bool trains_head(const Workload& w) {
  const model::TensorTable& model = *w.in.table;
  return has_tensor(w.in.trained(), is_tied(model) ? model.embedding_name : model.head_name);
}

// Returns the bytes of a chunk of logits, which a GPU's kernels overwrite with their gradient.
double logits_bytes(const Workload& w) {
  const bool is_cpu = w.machine.device.is_cpu;
  const double chunk = to_double(model::kHeadChunkRows) * (is_cpu ? 1 : 4 / to_double(w.bytes.weights));
  const double vocabulary = to_double(w.in.shape.vocabulary) / to_double(w.mesh.tensor);
  // Over several chunks the gradient of a 16-bit matrix is summed in float32; a CPU's matmuls are 16-bit.
  const bool summed = trains_head(w) && w.bytes.gradients < 4 && w.peak_response_rows > chunk;
  const double product = is_cpu ? to_double(w.bytes.weights) : 0;
  const double sum = summed ? vocabulary * to_double(w.in.shape.hidden) * (4 + product) : 0;
  const double each = to_double(w.bytes.weights) + (is_cpu ? 4 : 0);
  return std::min(w.peak_response_rows, chunk) * vocabulary * each + sum;
}

// Returns the largest temporary memory of a backward pass over a sharded model. It consists of the weights of
// the current and the next block (quantized blocks as bytes) or of all blocks if they stay gathered, the
// current block's gradients from autograd (except the head's), and the reduce-scatter buffer of the current
// or the previous block. Without shards only the gradients from autograd remain; they are large enough to
// count only with experts.
double gathered_bytes(const Workload& w) {
  const double weight = to_double(w.bytes.weights);
  if (w.mesh.shard == 1)
    return w.in.shape.experts == 0 ? 0 : unsharded_on_rank(w, w.in.trained().blocks.at(1)) * weight;
  const double reduced = w.storage.accumulates_unsharded ? 0 : to_double(w.bytes.reduction);
  const std::vector<Block>& blocks = w.in.table->blocks;
  const std::vector<Block>& trained = w.in.trained().blocks;
  const auto trained_size = [&](std::size_t i) {
    return i < trained.size() ? unsharded_on_rank(w, trained[i]) : 0;
  };
  const auto gathered = [&](std::size_t i) {
    return keeps_model(w) ? 0 : block_bytes(w, blocks[i]) + (i > 0 ? block_bytes(w, blocks[i - 1]) : 0);
  };
  double most = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const double gradients = blocks[i].kind == BlockKind::head ? 0 : trained_size(i);
    most = std::max(
        most, gathered(i) + gradients * weight + std::max(trained_size(i), trained_size(i + 1)) * reduced);
  }
  return kept_bytes(w) + most;
}

// Returns the bytes of the gradients of all parameters. If blocks are updated in the backward pass, returns
// those of the largest block, plus those of the embedding if the head shares its matrix.
double gradient_bytes(const Workload& w) {
  const double each = to_double(w.bytes.gradients);
  if (!w.storage.optimizer_in_backward) {
    const double unsharded_sums =
        w.storage.accumulates_unsharded ? unsharded_parameters(w) * 4 : 0;  // float32
    return resident_parameters(w, w.in.trained()) * each + unsharded_sums;
  }
  const std::vector<Block>& blocks = w.in.trained().blocks;
  const bool tied = is_tied(*w.in.table);
  double most = 0;
  for (std::size_t i = tied ? 1 : 0; i < blocks.size(); ++i)
    most = std::max(most, unsharded_on_rank(w, blocks[i]));
  return (most + (tied ? unsharded_on_rank(w, blocks.front()) : 0)) * each;
}

// Returns the bytes of optimizer state for each parameter.
double state_per_parameter(const Workload& w) {
  const model::TensorTable& trained = w.in.trained();
  return optimizer_values(w.in.run.optimizer, trained) / to_double(trained.count()) * w.bytes.state;
}

// Returns the bytes of optimizer state on the device. With offload these are the parts that are updated,
// fetched and written back.
double optimizer_on_device(const Workload& w) {
  const double all = optimizer_bytes(w);
  return w.storage.optimizer_on_host
             ? std::min(all, 3 * to_double(model::kOffloadedPart) * state_per_parameter(w))
             : all;
}

// Returns the bytes of the reference on the device. With offload these are the block in use and the next one.
double reference_on_device(const Workload& w) {
  if (!offloads_reference(w)) return reference_bytes(w);
  const std::vector<Block>& blocks = w.in.table->blocks;
  double most = 0;
  for (std::size_t i = 0; i + 1 < blocks.size(); ++i)
    most = std::max(most, unsharded_on_rank(w, blocks[i]) + unsharded_on_rank(w, blocks[i + 1]));
  return most * to_double(w.bytes.reference);
}

// True if a tensor is quantized, by the run or in the files.
bool is_quantized(const Workload& w, const Block& block, const model::TensorInfo& tensor) {
  return w.in.run.adapter.base_dtype && model::is_quantizable(block, tensor) &&
         (!w.in.quantization || w.in.quantization->covers(tensor.name));
}

// Returns the bytes of a quantized matrix on a tensor-parallel rank: its codes and their scales
// (ops/quantized_matrix.h). If ranks split an nf4 matrix, its scales have 32 bits instead of 8. If they split
// the columns of another format, every rank has the scales of all rows.
double quantized_bytes(const Workload& w, const model::TensorInfo& tensor) {
  const std::int64_t ranks = w.mesh.tensor;
  const double count = to_double(tensor.count()) / to_double(ranks);
  if (w.in.run.adapter.base_dtype != config::BaseDtype::nf4)
    return count * bytes_of_code(w) +
           4 * to_double(tensor.shape[0]) / to_double(*tensor.split == 0 ? ranks : 1);
  if (ranks == 1) return count * bytes_of_code(w);
  return count * nf4_bytes(/*has_nested=*/false, model::nf4_group_on_ranks(tensor, ranks, kNf4Block));
}

double model_bytes(const Workload& w) {
  if (w.spread > 1)
    return fullest_of_spread(*w.in.table, w.spread,
                             [&w](const Block& block) { return block_bytes(w, block); });
  if (!w.in.run.adapter.base_dtype) return resident_parameters(w, *w.in.table) * to_double(w.bytes.weights);
  double bytes = 0;
  for (const Block& block : w.in.table->blocks) bytes += block_bytes(w, block);
  return bytes / to_double(w.mesh.shard);
}

// Returns the bytes of the quantized layer in use, in the dtype that it is computed in.
double expanded_bytes(const Workload& w) {
  if (!w.in.run.adapter.base_dtype) return 0;
  double most = 0;
  for (const Block& block : w.in.table->blocks)
    if (block.kind == BlockKind::layer) most = std::max(most, unsharded_on_rank(w, block));
  return most * to_double(w.bytes.weights);
}

// Returns the bytes that Adafactor's update of a tensor takes: its gradient and its change in float32, and
// the weights too if they are not float32. Other optimizers work in pieces.
double update_bytes(const Workload& w) {
  if (w.in.run.optimizer != config::Optimizer::Adafactor) return 0;
  std::int64_t largest = 0;
  for (const Block& block : w.in.trained().blocks)
    for (const model::TensorInfo& tensor : block.tensors) largest = std::max(largest, tensor.count());
  return to_double(largest) * (w.bytes.weights == 4 ? 8 : 12);
}

// Returns the bytes of the embedding's gradient from autograd, for all its rows, before it is added to the
// sums. It exists on a CPU, with ranks, and in a build without our kernels, which a plan cannot know.
double embedding_gradient_bytes(const Workload& w) {
  const model::TensorTable& trained = w.in.trained();
  // With shards it counts among the gathered blocks.
  if (w.mesh.shard > 1 || !has_tensor(trained, trained.embedding_name)) return 0;
  return unsharded_on_rank(w, trained.blocks.front()) * to_double(w.bytes.weights);
}

// Returns by how much the memory that is needed after the backward pass exceeds that of the freed activations
// and logits. Updates during the backward pass need their memory in addition, because nothing is freed yet.
double later_bytes(const Workload& w, double activations, double logits) {
  const double freed = activations + logits, update = update_bytes(w);
  const bool is_during = w.storage.optimizer_in_backward;
  return std::max({0.0, embedding_gradient_bytes(w) - freed, is_during ? update : update - freed});
}

double workspace_bytes(const Workload& w, double activations, double logits) {
  // On a CPU the allocator keeps a tenth of activations and logits after they are freed (measured).
  if (w.machine.device.is_cpu) return 0.25 * kGib + 0.1 * (activations + logits);
  return 0.05 * activations;
}

// Returns the bytes that a GPU's driver and libraries use in addition to tensors.
double driver_bytes(const Workload& w) {
  if (w.machine.device.is_cpu) return 0;
  const double context = 1.0 * kGib;
  const double collectives = w.mesh.ranks() > 1 ? 0.5 * kGib : 0;
  return context + collectives;
}

constexpr const char* kDriver = "driver";
constexpr const char* kSnapshot = "checkpoint copy";

// True if a checkpoint's copy is outside of the memory that is planned here. A checkpoint is copied to host
// memory and written in the background; on a CPU that is the run's own memory.
bool copies_to_host(const Workload& w) { return !w.machine.device.is_cpu; }

}  // namespace

double unsharded_on_rank(const Workload& w, const Block& block) {
  return to_double(block_on_rank(w, block).size);
}

bool Memory::fits_with_room() const {
  constexpr double kFree = 0.03;  // plans are too low by up to this share (docs/benchmarks.md)
  return total() <= (1 - kFree) * available;
}

double Memory::total() const {
  double sum = 0;
  for (const MemoryPart& part : parts) sum += part.bytes;
  return sum;
}

double optimizer_values(config::Optimizer optimizer, const model::TensorTable& table) {
  const double parameters = to_double(table.count());
  if (optimizer == config::Optimizer::SGD) return 0;
  if (optimizer == config::Optimizer::RMSprop) return parameters;
  if (optimizer != config::Optimizer::Adafactor) return 2 * parameters;
  double values = 0;  // Adafactor keeps one row and one column per matrix
  for (const Block& block : table.blocks)
    for (const model::TensorInfo& tensor : block.tensors)
      values +=
          tensor.shape.size() == 2 ? to_double(tensor.shape[0] + tensor.shape[1]) : to_double(tensor.count());
  return values;
}

double resident_parameters(const Workload& w, const model::TensorTable& table) {
  if (w.spread > 1)
    return fullest_of_spread(table, w.spread, [](const Block& block) { return to_double(block.count()); });
  double sum = 0;
  for (const Block& block : table.blocks) sum += to_double(block_on_rank(w, block).shard_size);
  return sum;
}

double optimizer_bytes(const Workload& w) {
  return state_per_parameter(w) * resident_parameters(w, w.in.trained());
}

double reference_bytes(const Workload& w) {
  // With an adapter, the reference's weights are the policy's.
  if (w.reference != ReferenceMode::live || w.in.adapter) return 0;
  return resident_parameters(w, *w.in.table) * to_double(w.bytes.reference);
}

bool offloads_reference(const Workload& w) {
  return w.storage.reference_on_host && w.mesh.shard == 1 && reference_bytes(w) > 0;
}

double bytes_of_code(const Workload& w) {
  if (w.in.run.adapter.base_dtype != config::BaseDtype::nf4) return 1;
  return nf4_bytes(!w.in.quantization || w.in.quantization->nested);
}

double block_bytes(const Workload& w, const Block& block) {
  const double weight = to_double(w.bytes.weights);
  if (!w.in.run.adapter.base_dtype) return unsharded_on_rank(w, block) * weight;
  double bytes = 0;
  for (const model::TensorInfo& tensor : block.tensors)
    bytes += is_quantized(w, block, tensor)
                 ? quantized_bytes(w, tensor)
                 : to_double(tensor.count()) / to_double(tensor.split ? w.mesh.tensor : 1) * weight;
  return bytes;
}

double quantized_parameters(const Workload& w, const Block& block) {
  double sum = 0;
  for (const model::TensorInfo& tensor : block.tensors)
    if (is_quantized(w, block, tensor)) sum += to_double(tensor.count());
  return sum / to_double(w.mesh.tensor);
}

double bytes_per_parameter(const Workload& w) {
  double bytes = 0, parameters = 0;
  for (const Block& block : w.in.table->blocks) {
    bytes += block_bytes(w, block);
    parameters += to_double(block.count_on_rank(w.mesh.tensor));
  }
  return bytes / parameters;
}

double Memory::tensors() const {
  double sum = 0;
  for (const MemoryPart& part : parts)
    if (part.name != kDriver) sum += part.bytes;
  return sum;
}

Memory memory_per_gpu(const Workload& w) {
  const ElementBytes& p = w.bytes;
  const model::TensorTable& trained = w.in.trained();
  const double resident = resident_parameters(w, trained);
  const double activations = activation_bytes(w), logits = logits_bytes(w);
  const double snapshot = w.in.run.debug ? 0 : resident * to_double(p.stored) + optimizer_bytes(w);
  Memory memory;
  memory.available = w.machine.device.memory * kUsable;
  memory.parts = {
      {"parameters", model_bytes(w) + (w.in.adapter ? resident * to_double(p.weights) : 0)},
      {"gradients", gradient_bytes(w)},
      {"optimizer", optimizer_on_device(w)},
      {"master weights", resident * p.master},
      {"reference", reference_on_device(w)},
      {"activations", activations},
      {"logits chunk", logits},
      {"gathered blocks", gathered_bytes(w)},
      {"layer in use", expanded_bytes(w) + fp8_operand_bytes(w)},
      {"workspace", workspace_bytes(w, activations, logits) + later_bytes(w, activations, logits)},
      {kSnapshot, copies_to_host(w) ? 0 : snapshot},
      {kDriver, driver_bytes(w)},
  };
  return memory;
}

}  // namespace dpo::plan
