// Products of matrices by cuBLASLt with the fastest of its algorithms on the GPU at hand. As in kernels.h.
#pragma once

#include <cstdint>
#include <functional>

#include "ops/cuda/kernels.h"

namespace dpo::cuda {

// A matrix in row-major order with `stride` elements from row to row; if `transposed`, the transpose of one.
struct Operand {
  const void* data = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;
};

// out = a b: [rows, inner] times [inner, columns].
struct Product {
  Type type = Type::bfloat16;  // of a, b and the bias: 16 bits
  Type out_type = Type::bfloat16;
  std::int64_t rows = 0, columns = 0, inner = 0;
  Operand a, b;
  const void* bias = nullptr;  // [columns], added to every row; null: none
  void* out = nullptr;         // contiguous
};

// What is known of a product's sizes. Counts the call.
enum class Choice {
  none,    // use LibTorch's product: the sizes are new or small, or nothing is faster
  due,     // they came up often enough to try algorithms
  chosen,  // there is a faster algorithm
};
Choice choice_for(const Product& product);

constexpr std::int64_t kProductWorkspace = 1 << 20;  // bytes

// Computes a product that is due with each algorithm that cuBLASLt proposes, and chooses the fastest. Another
// run may choose another one, so only those count that give the same bits as `usual`, LibTorch's product into
// `out`: they multiply in tiles of other sizes, but add up the terms of each sum in the same order. If too
// much of the result is 0 to tell, the trial is put off. Afterwards `out` holds nothing of use.
void choose_algorithm(const Product& product, const std::function<void()>& usual, void* workspace,
                      Stream stream);

// With the chosen algorithm. False if there is none, or it failed, which forgets it.
bool multiply(const Product& product, void* workspace, Stream stream);

// `words`: of 8 bytes. The hash depends on every word and its place.
struct Digest {
  std::uint64_t hash = 0, nonzero_words = 0;
};
// Writes it to `digest`, on the GPU.
void digest(const void* data, std::int64_t words, Digest* digest, Stream stream);

}  // namespace dpo::cuda
