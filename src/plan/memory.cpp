#include "plan/memory.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace dpo::plan {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;
constexpr double kHeadChunkRows =
    4096;                         // the head works through response tokens in chunks of about this many
constexpr double kUsable = 0.97;  // of a GPU's memory; the rest is the driver's

using model::Block;
using model::BlockKind;

double to_double(std::int64_t count) { return static_cast<double>(count); }

double largest_block(const model::TensorTable& table) {
  double largest = 0;
  for (const Block& block : table.blocks) largest = std::max(largest, to_double(block.count()));
  return largest;
}

// Blocks in order on `devices` devices, each where its middle falls: parameters of the fullest.
double fullest_of_spread(const model::TensorTable& table, std::int64_t devices) {
  const double share = to_double(table.count()) / to_double(devices);
  std::map<std::int64_t, double> held;
  double passed = 0;
  for (const Block& block : table.blocks) {
    const double size = to_double(block.count());
    held[static_cast<std::int64_t>((passed + size / 2) / share)] += size;
    passed += size;
  }
  double fullest = 0;
  for (const auto& [device, parameters] : held) fullest = std::max(fullest, parameters);
  return fullest;
}

double layers_on_gpu(const Case& c) {
  const double layers = to_double(c.in.shape.layers);
  return c.trainer == Trainer::basic ? std::ceil(layers / to_double(c.ranks)) : layers;
}

double tensor_degree(const Case& c) { return c.trainer == Trainer::tensor ? to_double(c.ranks) : 1; }

double activation_bytes(const Case& c) {
  double layer = 0;
  for (const SavedTensor& saved : saved_tensors(c.in.shape, c.precision.weights))
    layer += saved.split ? saved.bytes / tensor_degree(c) : saved.bytes;
  const double input = to_double(c.in.shape.hidden * c.precision.weights);
  const double layers = layers_on_gpu(c);
  const double body = c.in.run.activation_checkpointing ? layers * input + layer : layers * layer;
  const double ends = 2 * input;  // the embedding's output and the final norm's
  return c.peak_tokens * (body + ends);
}

double logits_bytes(const Case& c) {
  const double rows = std::min(c.peak_response_rows, kHeadChunkRows);
  // float32 log-probabilities and the gradient of the logits.
  return rows * to_double(c.in.shape.vocabulary) / tensor_degree(c) * to_double(4 + c.precision.weights);
}

double workspace_bytes(const Case& c, double activations) {
  if (c.in.machine.device.is_cpu) return 0.25 * kGib;
  const double context = 1.0 * kGib;  // CUDA context, cuBLAS and allocator slack
  const double collectives = c.ranks > 1 && c.trainer != Trainer::basic ? 0.5 * kGib : 0;
  return context + collectives + 0.05 * activations;
}

}  // namespace

double Memory::total() const {
  double sum = 0;
  for (const MemoryPart& part : parts) sum += part.bytes;
  return sum;
}

// Our blocks keep these; a fused block may keep fewer, never more.
std::vector<SavedTensor> saved_tensors(const model::Shape& s, std::int64_t element_bytes) {
  const auto bytes = [element_bytes](std::int64_t elements) { return to_double(elements * element_bytes); };
  const bool gated = s.family != model::Family::gpt2 && s.family != model::Family::gpt_neox &&
                     s.family != model::Family::gptj;
  const bool one_norm = s.family == model::Family::gptj;
  const double statistics = gated ? 4 : 8;  // float32: the inverse deviation, and the mean of a layer norm
  std::vector<SavedTensor> saved = {
      {"layer input", bytes(s.hidden), false},
      {"first norm", bytes(s.hidden), false},
      {"queries", bytes(s.query_width()), true},
      {"keys and values", bytes(2 * s.kv_width()), true},
      {"attention output", bytes(s.query_width()), true},
      {"log-sum-exp", 4 * to_double(s.heads), true},
      {"norm statistics", (one_norm ? 1 : 2) * statistics, false},
  };
  if (!one_norm) saved.push_back({"second norm", bytes(s.hidden), false});
  if (!s.parallel_residual) saved.push_back({"residual between", bytes(s.hidden), false});
  saved.push_back({"MLP inner", bytes((gated ? 3 : 2) * s.ffn), true});
  return saved;
}

double optimizer_values(const std::string& optimizer, const model::TensorTable& table) {
  const double parameters = to_double(table.count());
  if (optimizer == "SGD") return 0;
  if (optimizer == "RMSprop") return parameters;
  if (optimizer != "Adafactor") return 2 * parameters;
  double values = 0;  // Adafactor keeps a row and a column for a matrix
  for (const Block& block : table.blocks)
    for (const model::Tensor& tensor : block.tensors)
      values +=
          tensor.shape.size() == 2 ? to_double(tensor.shape[0] + tensor.shape[1]) : to_double(tensor.count());
  return values;
}

double resident_parameters(const Case& c) {
  const model::TensorTable& table = *c.in.table;
  if (c.trainer == Trainer::basic) return fullest_of_spread(table, c.ranks);
  double sum = 0;
  for (const Block& block : table.blocks)
    sum += c.trainer == Trainer::tensor ? to_double(block.count_on_rank(c.ranks))
                                        : std::ceil(to_double(block.count()) / to_double(c.ranks));
  return sum;
}

Memory memory_per_gpu(const Case& c) {
  const Precision& p = c.precision;
  const model::TensorTable& table = *c.in.table;
  const double resident = resident_parameters(c);
  const double state = optimizer_values(c.in.run.optimizer, table) * resident / to_double(table.count());
  const bool gathers = c.trainer == Trainer::sharded && c.ranks > 1;
  const double block = gathers ? largest_block(table) : 0;
  const double activations = activation_bytes(c);
  Memory memory;
  memory.available = c.in.machine.device.memory * kUsable;
  memory.parts = {
      {"parameters", resident * to_double(p.weights)},
      {"gradients", resident * to_double(p.gradients)},
      {"optimizer", state * to_double(p.state)},
      {"master copy", resident * to_double(p.master)},
      {"reference", c.reference == Reference::live ? resident * to_double(p.reference) : 0},
      {"activations", activations},
      {"logits chunk", logits_bytes(c)},
      // Two blocks are gathered at a time (one in use, one prefetched), one gradient waits to be scattered.
      {"gathered blocks", block * to_double(2 * p.weights + p.reduction)},
      {"workspace", workspace_bytes(c, activations)},
  };
  return memory;
}

}  // namespace dpo::plan
