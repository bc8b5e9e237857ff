// Attention over the trees of a forest in one pass: every query against the keys of its prompt and of its own
// response. Needs neither LibTorch's headers nor CUDA's.
#pragma once

#include <cstdint>

#include "ops/cuda/kernels.h"

namespace dpo::cuda {

constexpr int kTreeTile = 64;

// A tile: kTreeTile tokens of a tree that follow each other. A tree's tokens are numbered from 0: those of
// its prompt, then those of all its responses. Other tiles of the tree are named by their number in it.
struct TreeTile {
  std::int32_t prompt = 0;  // the first token of the prompt, in the batch
  std::int32_t prompt_tokens = 0;
  std::int32_t responses = 0;  // the first token of the responses, in the batch
  std::int32_t tokens = 0;     // of the tree
  std::int32_t number = 0;
  std::int32_t shared_end = 0;  // its queries see keys of the tiles [0, shared_end) ...
  std::int32_t own_begin = 0;   // ... and of [own_begin, number]
  std::int32_t last = 0;        // its keys are seen by queries of the tiles [number, last]
};

// An array of [tokens, heads, head_dim]; strides in elements, that of head_dim is 1.
struct TreeArray {
  void* data = nullptr;
  std::int64_t token = 0, head = 0;
};

struct TreeAttention {
  TreeArray q, k, v, out;                 // bfloat16; each row of a head begins at a multiple of 16 bytes
  float* lse = nullptr;                   // [heads, tokens]: log-sum-exp of the scores
  const TreeTile* query_tiles = nullptr;  // all tiles, in the order in which blocks take them ...
  const TreeTile* key_tiles = nullptr;    // ... for their queries, and for their keys
  const std::int32_t* starts =
      nullptr;  // [tokens]: the number in its tree of the first token of its sequence
  std::int64_t tile_count = 0, tokens = 0, heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 1;  // positive
};

struct TreeGradients {
  TreeArray out, q, k, v;
  float* delta = nullptr;  // [heads, tokens], written: the products of outputs and their gradients
};

// Whether the GPU has these kernels as code for 8.0 or newer. A build for Turing alone runs on newer GPUs
// too, but without the instructions that they are made of.
bool has_tree_code();
// Whether there are kernels for heads of this size.
bool attends_trees(std::int64_t head_dim);
// Whether these multiply in groups of warps on the current GPU, as Hopper can: then they are the fastest for
// long sequences too.
bool attends_in_groups(std::int64_t head_dim);
void attend_trees(const TreeAttention& attention, Stream stream);
// Each gradient is the sum of one thread in a fixed order, so the same every time.
void attend_trees_backward(const TreeAttention& attention, const TreeGradients& gradients, Stream stream);

}  // namespace dpo::cuda
