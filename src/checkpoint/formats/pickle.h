#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/formats/safetensors.h"

namespace dpo::checkpoint {

// A tensor of a pickled state dict: a view of a storage, which is a file of the archive.
struct PickledTensor {
  std::string name;
  Dtype dtype{};
  std::string storage;      // key of the storage, in the file data/KEY
  std::int64_t offset = 0;  // in elements, like the strides
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
};

// Returns the tensors of a pickled state dict, or of the one under the key "state", as in the original's
// policy.pt. The pickle is parsed, not run. Any opcode or global that does not build plain values, containers
// or tensors is a UserError that names it and explains how to convert the file.
std::vector<PickledTensor> read_state_dict(std::span<const std::byte> pickle, const std::string& origin);

}  // namespace dpo::checkpoint
