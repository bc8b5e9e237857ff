#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// Describes a forest to the CUDA kernel of attention over trees (ops/cuda/trees.h).
struct TreeTiles {
  // Fields of each cuda::TreeTile, for tiles of queries and for tiles of keys. Tiles with the most work come
  // first.
  std::vector<std::int32_t> query_tiles, key_tiles;
  std::vector<std::int32_t> starts;  // [tokens]: first token of its sequence, as a number in its tree
};

// TreeTiles on a GPU that has the kernel; undefined elsewhere.
struct TreeTensors {
  at::Tensor query_tiles, key_tiles, starts;  // int32
};

// The arguments are cumulative lengths: `sequences` of all prompts and then all responses, `branches` of each
// tree's responses together, `prompts` of the prompts.
TreeTiles make_tree_tiles(const std::vector<std::int32_t>& sequences,
                          const std::vector<std::int32_t>& branches,
                          const std::vector<std::int32_t>& prompts);

}  // namespace dpo::ops
