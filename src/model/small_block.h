#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/weights.h"
#include "ops/small_matrix.h"

namespace dpo::model {

// A frozen block with its matrices in few bits: where everything is in its bytes, and where it belongs in its
// flat buffer of values. The bytes are one buffer, so that ranks can shard it.
struct SmallBlock {
  // A tensor in the bytes.
  struct Stored {
    Range bytes;
    at::ScalarType type = at::kByte;
  };
  struct Part {
    std::int64_t start = 0;  // in the flat buffer
    std::vector<std::int64_t> shape;
    Stored codes, scales, nested;
    ops::SmallMatrix matrix;  // views of the bytes, unless this rank has only its shard of them
  };
  std::vector<Part> matrices;
  std::vector<Range> others;  // where the other tensors are in the flat buffer
  Stored other_values;
  at::Tensor values = {};                 // a view of these, likewise
  std::int64_t size = 0, shard_size = 0;  // of all bytes, and of a rank's
};

// For each tensor of a block, the matrix in few bits that the model's files have, if they have one. Empty if
// they have none in any block.
using StoredMatrices = std::vector<std::optional<ops::SmallMatrix>>;

// What a rank holds of a block: with its matrices in few bits, if it has any that may be (may_be_small). This
// process must have the block whole: a part of a matrix keeps the values that it has in the whole, whose
// scales depend on all of it. `stored`: these are taken as they are, and the other matrices are not
// quantized.
BlockWeights to_small(const BlockWeights& whole, const Block& block, ops::SmallDtype dtype,
                      const Layout& layout = {}, const StoredMatrices& stored = {});

// A block like that one over other bytes, which are not sharded.
BlockWeights small_views(const at::Tensor& bytes, const SmallBlock& like);

// Writes all tensors of such a block into its flat buffer, which is not sharded. Padding is left as it is:
// nothing reads that of frozen weights.
void from_small(const BlockWeights& weights, const at::Tensor& flat);

}  // namespace dpo::model
