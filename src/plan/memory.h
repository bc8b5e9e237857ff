#pragma once

#include <string>
#include <vector>

#include "plan/inputs.h"

namespace dpo::plan {

struct MemoryPart {
  std::string name;
  double bytes = 0;
};

struct Memory {
  std::vector<MemoryPart> parts;  // of the fullest GPU
  double available = 0;

  double total() const;
  double tensors() const;  // without the driver's: what a GPU's allocator reports
  bool fits() const { return total() <= available; }
  // True if it fits even if the plan is too low. A choice that is left to the plan needs this room.
  bool fits_with_room() const;
};

Memory memory_per_gpu(const Workload& w);

// Returns how many layers the run recomputes. With activation_checkpointing=auto this is the smallest number
// that leaves some memory free. It is never all layers, since the last one's memory is needed anyway.
std::int64_t recomputed_layers_of(const Workload& w);

// Returns the parameters of a table that live on the fullest GPU. The table is the model's, or that of the
// trained tensors.
double resident_parameters(const Workload& w, const model::TensorTable& table);

// Returns the bytes of a block of the model as a tensor-parallel rank keeps it, before sharding: in the dtype
// that it is computed in, or with quantized frozen matrices (adapter.base_dtype).
double block_bytes(const Workload& w, const model::Block& block);

// Returns the parameters of a block of either table on a tensor-parallel rank, before sharding.
double unsharded_on_rank(const Workload& w, const model::Block& block);

// Returns these bytes for each parameter, on average.
double bytes_per_parameter(const Workload& w);

// Returns the bytes of a quantized element, with its share of the scales.
double bytes_of_code(const Workload& w);

// Returns the quantized parameters of a block on a tensor-parallel rank.
double quantized_parameters(const Workload& w, const model::Block& block);

// Returns the number of optimizer state values for all parameters of the model.
double optimizer_values(config::Optimizer optimizer, const model::TensorTable& table);

// Returns the bytes of optimizer state of the fullest rank.
double optimizer_bytes(const Workload& w);

// Return the bytes of a reference that is computed live with separate weights (0 if there is none), and
// whether it is kept in host memory.
double reference_bytes(const Workload& w);
bool offloads_reference(const Workload& w);

// A tensor that a layer saves for its backward pass.
struct SavedTensor {
  const char* name;
  double bytes = 0;    // per token
  bool split = false;  // over tensor-parallel ranks
};

std::vector<SavedTensor> saved_tensors(const model::ModelShape& shape, std::int64_t element_bytes);

// Returns the bytes that the layers of the fullest GPU save for the tokens of a microbatch.
double activation_bytes(const Workload& w);

}  // namespace dpo::plan
