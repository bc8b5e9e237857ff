// Declares matmuls by cuBLASLt with the fastest algorithm for the GPU at hand. The rules of kernels.h apply.
#pragma once

#include <cstdint>
#include <functional>

#include "ops/cuda/kernels.h"

namespace dpo::cuda {

// A row-major matrix with `stride` elements from row to row, or the transpose of one if `transposed`.
struct Operand {
  const void* data = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;
};

// Describes out = a b: [rows, inner] times [inner, columns].
struct Matmul {
  Type type = Type::bfloat16;  // 16-bit type of a, b and the bias
  Type out_type = Type::bfloat16;
  std::int64_t rows = 0, columns = 0, inner = 0;
  Operand a, b;
  const void* bias = nullptr;  // [columns], added to every row; null: none
  void* out = nullptr;         // contiguous
};

// Returns what is known about a matmul of these sizes, and counts the call.
enum class Choice {
  none,    // use LibTorch's matmul: the sizes are new or small, or nothing is faster
  due,     // the sizes came up often enough to try algorithms
  chosen,  // an algorithm is faster than LibTorch's matmul
};
Choice choice_for(const Matmul& matmul);

constexpr std::int64_t kMatmulWorkspace = 1 << 20;  // bytes

// Tries each algorithm that cuBLASLt proposes for a matmul that is due, and chooses the fastest. Another run
// may choose another one, so candidates must give the same bits as `usual`, LibTorch's matmul into `out`:
// they use other tile sizes but add the terms of each sum in the same order. If too much of the result is 0
// to tell, the trial is postponed. Afterwards the contents of `out` are unspecified.
void choose_algorithm(const Matmul& matmul, const std::function<void()>& usual, void* workspace,
                      Stream stream);

// Multiplies with the chosen algorithm. Returns false if there is none, or if it failed; then the choice is
// dropped.
bool multiply(const Matmul& matmul, void* workspace, Stream stream);

// A hash of 8-byte words. It depends on every word and its position.
struct Digest {
  std::uint64_t hash = 0, nonzero_words = 0;
};
// Writes the digest of `words` 8-byte words to `digest`, on the GPU.
void digest(const void* data, std::int64_t words, Digest* digest, Stream stream);

}  // namespace dpo::cuda
