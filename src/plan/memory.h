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
};

Memory memory_per_gpu(const Workload& w);

// The layers that the run recomputes. If the plan decides, as few as leave a little of the memory free if
// possible, but not all: the memory of the last one is needed in any case.
std::int64_t recomputed_layers_of(const Workload& w);

// Parameters of a table that live on the fullest GPU: the model's, or those that are trained.
double resident_parameters(const Workload& w, const model::TensorTable& table);

// Bytes of a block of the model as a tensor-parallel rank keeps it, before sharding: as it is computed with,
// or with the frozen matrices in few bits (adapter.base_dtype).
double block_bytes(const Workload& w, const model::Block& block);

// The same for each parameter, on average.
double bytes_per_parameter(const Workload& w);

// Bytes of an element in few bits, with the scales of blocks of elements.
double bytes_of_code(const Workload& w);

// Parameters of a block on a tensor-parallel rank that are in few bits.
double small_parameters(const Workload& w, const model::Block& block);

// Whether every shard rank sums all gradients over the microbatches and reduces them once per update
// (fsdp_accumulate=whole).
bool accumulates_unsharded(const Workload& w);

// Values of optimizer state for all parameters of the model.
double optimizer_values(config::Optimizer optimizer, const model::TensorTable& table);

// Bytes of optimizer state of the fullest rank, and whether it waits in host memory (offload).
double optimizer_bytes(const Workload& w);
bool offloads_optimizer(const Workload& w);

// The same of a reference that is computed live with weights of its own; 0 bytes if there is none.
double reference_bytes(const Workload& w);
bool offloads_reference(const Workload& w);

// A tensor that a layer saves for its backward pass.
struct SavedTensor {
  const char* name;
  double bytes = 0;    // per token
  bool split = false;  // over tensor-parallel ranks
};

std::vector<SavedTensor> saved_tensors(const model::ModelShape& shape, std::int64_t element_bytes);

// Bytes that the layers of the fullest GPU save for the tokens of a microbatch.
double activation_bytes(const Workload& w);

}  // namespace dpo::plan
