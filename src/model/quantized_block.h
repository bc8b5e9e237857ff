#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/weights.h"
#include "ops/quantized_matrix.h"

namespace dpo::model {

// Layout of a frozen block with quantized matrices: where each tensor is in the block's bytes, and where it
// belongs in the flat buffer of values. The bytes are one buffer, so that ranks can shard it.
struct QuantizedBlock {
  // A tensor in the bytes.
  struct Stored {
    Range bytes;
    at::ScalarType type = at::kByte;
  };
  struct Part {
    std::int64_t start = 0;  // in the flat buffer
    std::vector<std::int64_t> shape;
    Stored codes, scales, nested;
    ops::QuantizedMatrix matrix;  // views of the bytes, unless this rank has only its shard of them
  };
  std::vector<Part> matrices;
  std::vector<Range> others;  // ranges of the other tensors in the flat buffer
  Stored other_values;
  at::Tensor values = {};  // view of the bytes of `other_values`, unless this rank has only its shard of them
  std::int64_t size = 0, shard_size = 0;  // bytes, in all and on one rank
};

// Quantized matrices of a block in the model's files: one entry for each tensor, nullopt for a tensor that is
// not quantized there. Empty if the files have none in any block.
using StoredMatrices = std::vector<std::optional<ops::QuantizedMatrix>>;

// Returns a rank's part of a block with its quantizable matrices quantized (is_quantizable). This process
// must have the whole block, because scales depend on whole matrices; so the values of a part do not depend
// on how the ranks split the matrix. If `stored` is given, its matrices are used unchanged and no other
// matrix is quantized.
BlockWeights quantize(const BlockWeights& whole, const Block& block, ops::QuantizedDtype dtype,
                      const Layout& layout = {}, const StoredMatrices& stored = {});

// Returns a block with the layout `like` over other bytes, which must not be sharded.
BlockWeights quantized_views(const at::Tensor& bytes, const QuantizedBlock& like);

// Writes all tensors of a quantized block into its flat buffer, which must not be sharded. Padding is left as
// it is, since nothing reads the padding of frozen weights.
void dequantize(const BlockWeights& weights, const at::Tensor& flat);

}  // namespace dpo::model
