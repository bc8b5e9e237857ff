// Float32 numbers in two parts: rounded to bfloat16, with which passes compute, and the rest, which gives
// back all 32 bits. Together they take 33 bits, where float32 numbers with a bfloat16 copy take 48.
#pragma once

#include <ATen/core/Tensor.h>

namespace dpo::ops {

struct FloatRest {
  at::Tensor low = {};      // int16: the lower half of each number
  at::Tensor carries = {};  // uint8, a bit for each number: whether it was rounded up, away from zero

  bool defined() const { return low.defined(); }
};

// The functions below take flat, contiguous arrays. There are 8 numbers to a byte of `carries`, so counts and
// starts are multiples of 8.
FloatRest make_rest(std::int64_t count, at::Device device);
FloatRest part_of(const FloatRest& rest, std::int64_t from, std::int64_t count);

// Rounds to the nearest, as LibTorch does, and keeps the rest.
void split(const at::Tensor& exact, at::Tensor& rounded, FloatRest& rest);

// The numbers themselves; `exact` may be in host memory and the parts on a GPU.
void join(at::Tensor& exact, const at::Tensor& rounded, const FloatRest& rest);
at::Tensor joined(const at::Tensor& rounded, const FloatRest& rest);

// The same by LibTorch's operators, for GPUs; tests compare them with the loops of a CPU.
namespace operators {

void split(const at::Tensor& exact, at::Tensor rounded, const FloatRest& rest);
at::Tensor joined(const at::Tensor& rounded, const FloatRest& rest);

}  // namespace operators

}  // namespace dpo::ops
