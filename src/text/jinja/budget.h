// The limits of a rendering. Templates are untrusted input, so their steps, memory and nesting are limited.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dpo::text::jinja {

struct Limits {
  std::uint64_t steps = 20'000'000;    // nodes evaluated, items visited
  std::uint64_t bytes = 1ull << 30;    // bytes of all values that the template makes
  std::uint64_t value = 64ull << 20;   // bytes of one value, or of a text while it is made
  std::uint64_t output = 64ull << 20;  // bytes of rendered text
  std::uint32_t levels = 1500;         // nested evaluation: calls, expressions, values within values
  std::uint32_t calls = 200;           // nested calls of macros
};

// Applies limits to this thread's rendering during its lifetime. Without a Budget nothing is limited.
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

// Throw Failure when a limit is reached. Memory is charged before it is allocated, because a short template
// can ask for gigabytes.
void spend(std::uint64_t steps = 1);
void charge(std::uint64_t bytes);                          // a value, or a part of one
void charge(std::uint64_t count, std::uint64_t each);      // that number of items
void charge_text(std::size_t so_far, std::uint64_t more);  // a text or list that grows, in bytes

// Counts one level of nesting during its lifetime.
class Level {
 public:
  Level();
  ~Level();
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
};

}  // namespace dpo::text::jinja
