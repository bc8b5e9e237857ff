#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include <ATen/ops/tensor.h>

namespace dpo::ops {

// Returns every upper half of a finite float32 number with lower halves at and around the middle. Numbers in
// the middle round to the even neighbour, above or below.
inline at::Tensor numbers_near_ties() {
  std::vector<float> numbers;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper)
    for (const std::uint32_t low : {0U, 1U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      const auto number = std::bit_cast<float>(upper << 16 | low);
      if (std::isfinite(number)) numbers.push_back(number);
    }
  numbers.resize(numbers.size() / 512 * 512);
  return at::tensor(numbers);
}

}  // namespace dpo::ops
