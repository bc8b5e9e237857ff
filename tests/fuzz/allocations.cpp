#include "allocations.h"

#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

#include "target.h"

namespace {

thread_local bool counting = false;
thread_local std::ptrdiff_t held = 0, most = 0;

// A larger allocation can only come from a number that an input claims. Only our own code is limited: Arrow
// has its own pool, on malloc.
constexpr std::size_t kMostAtOnce = std::size_t{4} << 30;

// These two are not inlined, since g++ would see malloc without its free, or the reverse, and warn.
[[gnu::noinline]] void* allocate(std::size_t size) {
  if (size > kMostAtOnce) {
    std::fprintf(stderr, "memory: one allocation of %zu bytes\n", size);
    std::abort();
  }
  void* const memory = std::malloc(size);
  if (counting && memory) {
    held += static_cast<std::ptrdiff_t>(malloc_usable_size(memory));
    most = std::max(most, held);
  }
  return memory;
}

[[gnu::noinline]] void release(void* memory) {
  if (counting && memory) held -= static_cast<std::ptrdiff_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t size) {
  if (void* memory = allocate(size)) return memory;
  throw std::bad_alloc();
}
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }

namespace fuzz {

AllocationCount::AllocationCount() {
  held = most = 0;
  counting = true;
}
AllocationCount::~AllocationCount() { counting = false; }
std::size_t AllocationCount::peak() const { return static_cast<std::size_t>(most); }

void check_allocations(const AllocationCount& count, std::size_t input_size, std::size_t per_byte) {
  constexpr std::size_t kConstant = 16u << 10;
  if (count.peak() <= per_byte * input_size + kConstant) return;
  fail("memory",
       std::to_string(count.peak()) + " bytes were held for an input of " + std::to_string(input_size));
}

}  // namespace fuzz
