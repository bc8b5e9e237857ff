#pragma once

#include <cstdint>
#include <vector>

#include "model/spec/table.h"

namespace dpo::model {

// Elements in one part of offloaded optimizer state. Three such parts are on the device at a time.
constexpr std::int64_t kOffloadedPart = 1 << 23;

// Describes which part of a model one rank holds. Tensor-parallel ranks split single tensors, as the table
// says. Each packs its parts of a block into one flat buffer, which the ranks of a shard group split evenly.
struct Layout {
  std::int64_t tensor_rank = 0, tensor_ranks = 1;
  std::int64_t shard_rank = 0, shard_ranks = 1;
};

// Consecutive elements of a tensor.
struct Range {
  std::int64_t from = 0, count = 0;
};

// A tensor as a tensor-parallel rank holds it: ranges of consecutive elements of the whole tensor, packed one
// after the other. The same ranges repeat `repeats` times, `stride` elements apart.
struct LocalTensor {
  std::vector<std::int64_t> shape;
  std::vector<Range> ranges;
  std::int64_t repeats = 1, stride = 0;
  std::int64_t start = 0;  // where the tensor begins in the block's flat buffer

  std::int64_t count() const;
};

// A block as a tensor-parallel rank holds it. Padding between the tensors in the flat buffer is zero.
struct LocalBlock {
  std::vector<LocalTensor> tensors;  // as in the table
  std::int64_t size = 0;             // of the flat buffer
  std::int64_t shard_size = 0;       // of one rank's shard
};

LocalBlock local_block(const Block& block, const Layout& layout);

// Assigns each block one of several devices, in order, so that devices hold about equal numbers of
// parameters, like transformers' device_map="balanced". A block goes to the device that its middle falls on.
std::vector<std::size_t> spread_blocks(const TensorTable& table, std::size_t devices);

// The two sizes of a LocalBlock. block_size() is fast even for a layer with hundreds of experts.
struct BlockSize {
  std::int64_t size = 0, shard_size = 0;
};
BlockSize block_size(const Block& block, const Layout& layout);

// Returns the largest number of elements per nf4 scale that divides `elements` and lets each tensor-parallel
// rank hold whole groups of a tensor that the ranks split evenly.
std::int64_t nf4_group_on_ranks(const TensorInfo& tensor, std::int64_t ranks, std::int64_t elements);

// Consecutive elements of a tensor in a rank's shard of a block's flat buffer.
struct Piece {
  std::size_t tensor = 0;  // in the block's table
  std::int64_t from = 0;   // element of the whole tensor
  std::int64_t to = 0;     // element of this rank's shard of the buffer
  std::int64_t count = 0;
};

// Returns everything that this rank holds of a block, in the order of the buffer.
std::vector<Piece> pieces_of(const Block& block, const Layout& layout);

// All pieces of one tensor. They are contiguous in a rank's buffer.
struct HeldTensor {
  std::size_t tensor = 0;     // in the block's table
  std::int64_t to = 0;        // element of this rank's shard of the buffer
  std::int64_t count = 0;     // of all ranges
  std::vector<Range> ranges;  // of the whole tensor
};

// Returns the tensors of a block of which this rank holds at least a part, in the order of the buffer.
std::vector<HeldTensor> held_tensors(const Block& block, const Layout& layout);

}  // namespace dpo::model
