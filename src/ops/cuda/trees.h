// Attention over the trees of a forest in one pass: every query against the keys of its prompt and of its own
// response. Needs neither LibTorch's headers nor CUDA's.
#pragma once

#include <cstdint>

#include "ops/cuda/kernels.h"

namespace dpo::cuda {

constexpr int kTreeTile = 64;

// A tile of kTreeTile consecutive tokens of a tree. A tree's tokens are numbered from 0: its prompt, then all
// its responses. Tiles are numbered from 0 within their tree.
struct TreeTile {
  std::int32_t prompt = 0;  // first token of the prompt, in the batch
  std::int32_t prompt_tokens = 0;
  std::int32_t responses = 0;  // first token of the responses, in the batch
  std::int32_t tokens = 0;     // number of tokens of the tree
  std::int32_t number = 0;
  std::int32_t shared_end = 0;  // its queries see keys of tiles [0, shared_end)
  std::int32_t own_begin = 0;   // its queries also see keys of tiles [own_begin, number]
  std::int32_t last = 0;        // its keys are seen by queries of tiles [number, last]
};

// An array, [tokens, heads, head_dim]. Strides are in elements; the stride of head_dim is 1.
struct TreeArray {
  void* data = nullptr;
  std::int64_t token = 0, head = 0;
};

struct TreeAttention {
  TreeArray q, k, v, out;                 // bfloat16; each head's row begins at a multiple of 16 bytes
  float* lse = nullptr;                   // [heads, tokens]: log-sum-exp of the scores
  const TreeTile* query_tiles = nullptr;  // all tiles, in the order in which blocks take their queries
  const TreeTile* key_tiles = nullptr;    // all tiles, in the order in which blocks take their keys
  const std::int32_t* starts = nullptr;   // [tokens]: number in its tree of the first token of its sequence
  std::int64_t tile_count = 0, tokens = 0, heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 1;  // positive
};

struct TreeGradients {
  TreeArray out, q, k, v;
  float* delta = nullptr;  // [heads, tokens], written: dot products of outputs and their gradients
};

// True if the current GPU runs these kernels as compiled for compute capability 8.0 or newer. A build for
// Turing alone also runs on newer GPUs, but without the instructions that the kernels need.
bool has_tree_code();
// True if there are kernels for heads of this size.
bool attends_trees(std::int64_t head_dim);
// True if the kernels for this head size use Hopper's warp-group matmuls on the current GPU. Then they are
// the fastest for long sequences too.
bool attends_in_groups(std::int64_t head_dim);
void attend_trees(const TreeAttention& attention, Stream stream);
// Each element of a gradient is summed by one block in a fixed order, so it has the same bits every time.
void attend_trees_backward(const TreeAttention& attention, const TreeGradients& gradients, Stream stream);

}  // namespace dpo::cuda
