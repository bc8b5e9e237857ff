#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpo::ops {

// What the CUDA kernel of attention over trees needs of a forest (ops/cuda/trees.h).
struct TreeTiles {
  // The numbers of each cuda::TreeTile, those with the most work first: as tiles of queries, and of keys.
  std::vector<std::int32_t> query_tiles, key_tiles;
  std::vector<std::int32_t> starts;  // of each token: the first of its sequence, by its number in the tree
};

// The same on a GPU that has the kernel; undefined elsewhere.
struct TreeTensors {
  at::Tensor query_tiles, key_tiles, starts;  // int32
};

// The arguments are cumulative lengths: of all prompts and then all responses, of the responses of each tree
// together, and of the prompts.
TreeTiles make_tree_tiles(const std::vector<std::int32_t>& sequences,
                          const std::vector<std::int32_t>& branches,
                          const std::vector<std::int32_t>& prompts);

}  // namespace dpo::ops
