#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace dpo::optim {

// Returns random bits of consecutive elements, int64. A seed and an element's number give the same bits on
// every device and in our kernels (ops/state_math.h), however the elements are divided.
at::Tensor random_bits(std::uint64_t seed, std::int64_t first, std::int64_t count, at::Device device);

// Rounds float32 to 16 bits stochastically: each value becomes one of its two neighbours, with probabilities
// that make the expectation exact. Uses the 16 bits of a lane, 0 to 3, as noise.
void stochastic_round(at::Tensor& to, const at::Tensor& from, const at::Tensor& bits, int lane);

// Overload that uses the random bits of a seed.
void stochastic_round(at::Tensor& to, const at::Tensor& from, std::uint64_t seed);

}  // namespace dpo::optim
