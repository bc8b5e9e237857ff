// The random number generators of the original's order of examples: NumPy's and Python's, bit for bit.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace dpo::data {

// Equals numpy.random.seed(seed); numpy.random.randint(0, 2**32): the raw outputs of the Mersenne Twister,
// which NumPy's legacy interface seeds as the standard library does.
using NumpyLegacyRandom = std::mt19937;

// Python's `random`, seeded with an integer below 2**32.
class PythonRandom {
 public:
  explicit PythonRandom(std::uint32_t seed);

  std::uint32_t below(std::uint32_t bound);  // random.randrange(bound), 1 <= bound < 2**32

  void shuffle(std::span<std::uint32_t> values);  // random.shuffle

 private:
  std::mt19937 engine_;
};

// Equals numpy.random.default_rng(seed).permutation(count), count < 2**32.
std::vector<std::uint32_t> numpy_permutation(std::uint32_t seed, std::uint32_t count);

}  // namespace dpo::data
