#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace dpo::optim {

// Writes float32 values into 16-bit ones, each rounded to one of its two neighbours with probabilities that
// make the expectation exact. The same seed gives the same bits.
void round_at_random(at::Tensor& to, const at::Tensor& from, std::uint64_t seed);

}  // namespace dpo::optim
