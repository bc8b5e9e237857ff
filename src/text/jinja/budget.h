// What a rendering may use. A template comes from outside, so its steps, memory and nesting are bounded.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dpo::text::jinja {

struct Limits {
  std::uint64_t steps = 20'000'000;     // nodes evaluated, items visited
  std::uint64_t bytes = 1ull << 30;     // of all values that the template makes
  std::uint64_t output = 256ull << 20;  // bytes of rendered text
  std::uint32_t levels = 1500;          // of nested evaluation: calls, expressions, values within values
  std::uint32_t calls = 200;            // of macros and recursive loops within each other
};

// The limits of this thread's rendering, while it lives. Without one nothing is bounded.
class Budget {
 public:
  explicit Budget(const Limits& limits);
  ~Budget();
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

 private:
  friend void spend(std::uint64_t steps);
  friend void charge(std::uint64_t bytes);
  friend class Level;
  Limits left_;
  Budget* outer_;
};

// Each throws Failure when the limit is reached.
void spend(std::uint64_t steps = 1);
void charge(std::uint64_t bytes);

// One level of nesting, until the end of the block.
class Level {
 public:
  Level();
  ~Level();
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
};

}  // namespace dpo::text::jinja
