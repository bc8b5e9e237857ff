#pragma once

#include <cstddef>

namespace fuzz {

// Counts the bytes that operator new allocates and operator delete frees in this thread, while the object
// exists.
class AllocationCount {
 public:
  AllocationCount();
  ~AllocationCount();
  AllocationCount(const AllocationCount&) = delete;
  AllocationCount& operator=(const AllocationCount&) = delete;

  std::size_t peak() const;  // the most bytes that were held at once
};

// Aborts unless the peak is within `per_byte` times the size of the input plus a constant. Numbers that a
// file claims must not decide how much is allocated.
void check_allocations(const AllocationCount& count, std::size_t input_size, std::size_t per_byte);

}  // namespace fuzz
