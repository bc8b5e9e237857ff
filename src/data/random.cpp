#include "data/random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <utility>

namespace dpo::data {
namespace {

// Fills the state of the Mersenne Twister like its authors' init_by_array with a key of one word, as Python
// does.
class SeedByArray {
 public:
  using result_type = std::uint32_t;

  explicit SeedByArray(std::uint32_t key) : key_(key) {}

  template <class Iterator>
  void generate(Iterator begin, Iterator end) const {
    const auto n = static_cast<std::uint32_t>(end - begin);
    begin[0] = 19650218u;
    for (std::uint32_t i = 1; i < n; ++i) begin[i] = 1812433253u * mixed(begin[i - 1]) + i;
    std::uint32_t i = 1;
    const auto advance = [&] {
      if (++i < n) return;
      begin[0] = begin[n - 1];
      i = 1;
    };
    for (std::uint32_t round = 0; round < n; ++round, advance())
      begin[i] = (word(begin[i]) ^ (mixed(begin[i - 1]) * 1664525u)) + key_;
    for (std::uint32_t round = 1; round < n; ++round, advance())
      begin[i] = (word(begin[i]) ^ (mixed(begin[i - 1]) * 1566083941u)) - i;
    begin[0] = 0x80000000u;
  }

 private:
  // Narrows a word, because the standard library may pass a wider type.
  template <class Word>
  static std::uint32_t word(Word value) {
    return static_cast<std::uint32_t>(value);
  }
  template <class Word>
  static std::uint32_t mixed(Word value) {
    return word(value) ^ (word(value) >> 30);
  }

  std::uint32_t key_;
};

// PCG64 (XSL-RR) by Melissa O'Neill, seeded by NumPy's SeedSequence with one word.
class Pcg64 {
 public:
  explicit Pcg64(std::uint32_t seed) {
    const std::array<std::uint64_t, 4> words = seed_words(seed);
    const Wide state = join(words[0], words[1]);
    increment_ = (join(words[2], words[3]) << 1) | 1;
    state_ = increment_;  // equals one step from state 0
    state_ += state;
    step();
  }

  std::uint32_t next32() {
    if (has_half_) {
      has_half_ = false;
      return half_;
    }
    const std::uint64_t word = next64();
    has_half_ = true;
    half_ = static_cast<std::uint32_t>(word >> 32);
    return static_cast<std::uint32_t>(word);
  }

  // Returns a uniform number from 0 to `largest`. Draws as many bits as `largest` has until their value does
  // not exceed it.
  std::uint32_t up_to(std::uint32_t largest) {
    const auto mask = static_cast<std::uint32_t>(std::bit_ceil(std::uint64_t{largest} + 1) - 1);
    std::uint32_t value;
    do {
      value = next32() & mask;
    } while (value > largest);
    return value;
  }

 private:
  __extension__ using Wide = unsigned __int128;

  static Wide join(std::uint64_t high, std::uint64_t low) { return (Wide{high} << 64) | low; }

  void step() { state_ = state_ * join(2549297995355413924u, 4865540595714422341u) + increment_; }

  std::uint64_t next64() {
    step();
    const auto folded = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
    return std::rotr(folded, static_cast<int>(state_ >> 122));
  }

  static std::array<std::uint64_t, 4> seed_words(std::uint32_t seed) {
    std::uint32_t multiplier = 0x43b0d7e5u;
    const auto hashed = [&](std::uint32_t value, std::uint32_t factor) {
      value ^= multiplier;
      multiplier *= factor;
      value *= multiplier;
      return value ^ (value >> 16);
    };
    std::array<std::uint32_t, 4> pool{};
    for (std::size_t i = 0; i < pool.size(); ++i) pool[i] = hashed(i == 0 ? seed : 0, 0x931e8875u);
    for (std::size_t from = 0; from < pool.size(); ++from)
      for (std::size_t to = 0; to < pool.size(); ++to)
        if (from != to) {
          const std::uint32_t both = pool[to] * 0xca01f9ddu - hashed(pool[from], 0x931e8875u) * 0x4973f715u;
          pool[to] = both ^ (both >> 16);
        }
    multiplier = 0x8b51f9ddu;
    std::array<std::uint64_t, 4> words{};
    for (std::size_t i = 0; i < 8; ++i)
      words[i / 2] |= std::uint64_t{hashed(pool[i % 4], 0x58f38dedu)} << (i % 2 * 32);
    return words;
  }

  Wide state_ = 0;
  Wide increment_ = 0;
  bool has_half_ = false;
  std::uint32_t half_ = 0;
};

}  // namespace

PythonRandom::PythonRandom(std::uint32_t seed) {
  SeedByArray sequence(seed);
  engine_.seed(sequence);
}

std::uint32_t PythonRandom::below(std::uint32_t bound) {
  const int bits = std::bit_width(bound);
  std::uint32_t value;
  do {
    value = static_cast<std::uint32_t>(engine_()) >> (32 - bits);
  } while (value >= bound);
  return value;
}

void PythonRandom::shuffle(std::span<std::uint32_t> values) {
  for (std::size_t i = values.size(); i-- > 1;)
    std::swap(values[i], values[below(static_cast<std::uint32_t>(i + 1))]);
}

std::vector<std::uint32_t> numpy_permutation(std::uint32_t seed, std::uint32_t count) {
  std::vector<std::uint32_t> values(count);
  std::iota(values.begin(), values.end(), 0u);
  Pcg64 random(seed);
  for (std::uint32_t i = count; i-- > 1;) std::swap(values[i], values[random.up_to(i)]);
  return values;
}

}  // namespace dpo::data
