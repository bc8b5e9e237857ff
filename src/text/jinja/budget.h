// What a rendering may use. A template comes from outside, so its steps, memory and nesting are bounded.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dpo::text::jinja {

struct Limits {
  std::uint64_t steps = 20'000'000;    // nodes evaluated, items visited
  std::uint64_t bytes = 1ull << 30;    // of all values that the template makes
  std::uint64_t value = 64ull << 20;   // of one of them, or of a text while it is made
  std::uint64_t output = 64ull << 20;  // bytes of rendered text
  std::uint32_t levels = 1500;         // of nested evaluation: calls, expressions, values within values
  std::uint32_t calls = 200;           // of macros and recursive loops within each other
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
  friend void charge_text(std::size_t so_far, std::uint64_t more);
  friend class Level;
  Limits left_;
  Budget* outer_;
};

// Each throws Failure when the limit is reached. Memory is charged before it is allocated, since a short
// template can ask for gigabytes.
void spend(std::uint64_t steps = 1);
void charge(std::uint64_t bytes);                          // of a value, or of a part of one
void charge(std::uint64_t count, std::uint64_t each);      // of so many items
void charge_text(std::size_t so_far, std::uint64_t more);  // of a text or list that grows, in bytes

// One level of nesting, until the end of the block.
class Level {
 public:
  Level();
  ~Level();
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
};

}  // namespace dpo::text::jinja
