#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/weights.h"
#include "ops/small_matrix.h"

namespace dpo::model {

// The matrices of a frozen block in few bits, and where everything lies in its flat buffer.
struct SmallBlock {
  struct Part {
    std::int64_t start = 0;
    std::vector<std::int64_t> shape;
    ops::SmallMatrix matrix;
  };
  std::vector<Part> matrices;
  std::vector<Range> others;  // the rest of the buffer
};

// For each tensor of a block, the matrix in few bits that the model's files have, if they have one. Empty if
// they have none in any block.
using StoredMatrices = std::vector<std::optional<ops::SmallMatrix>>;

// A block with its matrices in few bits, if it has any that may be (may_be_small). This process must hold it
// whole: the parts of a matrix would have other scales. `stored`: these are taken as they are, and the other
// matrices are not quantized.
BlockWeights to_small(const BlockWeights& weights, const Block& block, ops::SmallDtype dtype,
                      const StoredMatrices& stored = {});

// Writes all weights of such a block into its flat buffer.
void from_small(const BlockWeights& weights, const at::Tensor& flat);

// Such a block on another device.
BlockWeights small_to_device(const BlockWeights& weights, at::Device device);

}  // namespace dpo::model
