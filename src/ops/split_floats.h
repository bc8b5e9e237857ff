// Float32 numbers in two parts: the bfloat16 rounding that passes compute with, and the rest, which restores
// all 32 bits. Together they take 33 bits, where float32 numbers with a bfloat16 copy take 48.
#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::ops {

struct FloatRest {
  at::Tensor low = {};      // int16: the lower half of each number
  at::Tensor carries = {};  // uint8, one bit per number: 1 if it was rounded up, away from zero

  bool defined() const { return low.defined(); }
};

// The functions below take flat, contiguous arrays. A byte of `carries` holds 8 numbers, so counts and starts
// are multiples of 8.
FloatRest make_rest(std::int64_t count, at::Device device);
FloatRest part_of(const FloatRest& rest, std::int64_t from, std::int64_t count);

// Rounds to the nearest, as LibTorch does, and stores the rest.
void split(const at::Tensor& exact, at::Tensor& rounded, FloatRest& rest);

// Restores the numbers. `exact` may be in host memory and the parts on a GPU.
void join(at::Tensor& exact, const at::Tensor& rounded, const FloatRest& rest);
at::Tensor joined(const at::Tensor& rounded, const FloatRest& rest);

// split() and joined() with LibTorch's operators, for GPUs. Tests compare them with the CPU loops.
namespace operators {

void split(const at::Tensor& exact, at::Tensor rounded, const FloatRest& rest);
at::Tensor joined(const at::Tensor& rounded, const FloatRest& rest);

}  // namespace operators

}  // namespace dpo::ops
