#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace dpo::optim {

// Stochastic rounding of float32 to 16 bits: each value becomes one of its two neighbours, with probabilities
// that make the expectation exact. The same seed gives the same bits.
void stochastic_round(at::Tensor& to, const at::Tensor& from, std::uint64_t seed);

}  // namespace dpo::optim
