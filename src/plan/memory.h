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
  double tensors() const;  // without the driver's share: what the allocator of a GPU counts
  bool fits() const { return total() <= available; }
};

Memory memory_per_gpu(const Case& c);

// Parameters whose weights, gradients and optimizer state live on the fullest GPU.
double resident_parameters(const Case& c);

// Whether gradients are summed whole over the microbatches, and exchanged between shards once.
bool accumulates_whole(const Case& c);

// Values the optimizer keeps for all parameters of the model.
double optimizer_values(const std::string& optimizer, const model::TensorTable& table);

// One tensor that a layer keeps from its forward pass for its backward pass.
struct SavedTensor {
  const char* name;
  double bytes = 0;    // per token
  bool split = false;  // divided among tensor-parallel ranks
};

std::vector<SavedTensor> saved_tensors(const model::Shape& shape, std::int64_t element_bytes);

}  // namespace dpo::plan
