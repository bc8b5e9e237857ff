#pragma once

#include <cstdint>
#include <vector>

#include "model/tables/table.h"

namespace dpo::model {

// What one rank holds of a model. Tensor-parallel ranks divide single tensors, as the table says; each of
// them lays its parts of a block into one flat buffer, which the ranks of a shard group divide evenly.
struct Layout {
  std::int64_t tensor_rank = 0, tensor_ranks = 1;
  std::int64_t shard_rank = 0, shard_ranks = 1;
};

// A tensor as a tensor-parallel rank holds it: runs of consecutive elements of the whole tensor, equally long
// and equally far apart, behind each other.
struct LocalTensor {
  std::vector<std::int64_t> shape;
  std::int64_t first = 0;   // element of the whole tensor that the first run begins with
  std::int64_t length = 0;  // of a run
  std::int64_t stride = 0;  // from the beginning of a run to that of the next
  std::int64_t start = 0;   // where the tensor begins in the block's flat buffer

  std::int64_t count() const;
};

// A block as a tensor-parallel rank holds it. What lies between the tensors in the flat buffer is zero.
struct LocalBlock {
  std::vector<LocalTensor> tensors;  // as in the table
  std::int64_t size = 0;             // of the flat buffer
  std::int64_t shard_size = 0;       // of a shard rank's part
};

LocalBlock local_block(const Block& block, const Layout& layout);

// Consecutive elements of a tensor in a rank's own part of a block's flat buffer.
struct Piece {
  std::size_t tensor = 0;  // in the block's table
  std::int64_t from = 0;   // element of the whole tensor
  std::int64_t to = 0;     // element of this rank's part of the buffer
  std::int64_t count = 0;
};

// All that this rank holds of a block, in the order of the buffer.
std::vector<Piece> pieces_of(const Block& block, const Layout& layout);

// Consecutive elements of a tensor.
struct Run {
  std::int64_t from = 0, count = 0;
};

// The pieces of one tensor together: in a rank's buffer they follow each other without a gap.
struct HeldTensor {
  std::size_t tensor = 0;  // in the block's table
  std::int64_t to = 0;     // element of this rank's part of the buffer
  std::int64_t count = 0;  // of all runs
  std::vector<Run> runs;   // of the whole tensor
};

// The tensors of a block of which this rank holds something, in the order of the buffer.
std::vector<HeldTensor> held_tensors(const Block& block, const Layout& layout);

}  // namespace dpo::model
