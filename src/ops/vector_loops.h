// Helpers for loops over rows that the compiler should vectorize.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

// Compiles a function for several instruction sets; the best one for the machine is chosen when the program
// starts. Disabled with the thread sanitizer: GCC instruments the code that chooses, which runs before the
// sanitizer is loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define DPO_FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define DPO_FOR_EACH_CPU
#endif

namespace dpo::ops {

inline constexpr std::int64_t kLanes = 16;  // independent sums and maxima, so that loops can be vectorized

// Rounds float32, given as its bits, to the nearest bfloat16, ties to even. NaN stays NaN.
inline std::uint16_t bfloat16_of(std::uint32_t bits) {
  constexpr std::uint32_t kInfinity = 0x7F800000, kNan = 0x7FC0;
  const std::uint32_t nearest = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > kInfinity ? kNan : nearest);
}

// Returns e^x for x <= 0 with a relative error of about 1e-7; 0 below -87; NaN stays NaN. The code is written
// so that compilers can vectorize it.
inline float exp_of(float x) {
  constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23: adding it rounds to whole numbers
  constexpr float kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  const float bounded = x > -87.0F ? x : -87.0F;
  const float whole = (bounded * 1.44269504F + kRounder) - kRounder;
  const float r = (bounded - whole * kLn2High) - whole * kLn2Low;
  float p = 1.0F / 5040;
  p = p * r + 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r * r + r + 1.0F;
  const auto power = std::bit_cast<float>((static_cast<std::int32_t>(whole) + 127) << 23);
  return x > -87.0F ? p * power : x == x ? 0.0F : x;
}

inline double exp_of(double x) { return std::exp(x); }

}  // namespace dpo::ops
