#include "allocations.h"

#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

bool counting = false;
std::size_t allocated = 0;

}  // namespace

void* operator new(std::size_t size) {
  if (counting) allocated += size;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  if (counting) allocated += size;
  return std::malloc(size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace fuzz {

AllocationCount::AllocationCount() {
  allocated = 0;
  counting = true;
}
AllocationCount::~AllocationCount() { counting = false; }
std::size_t AllocationCount::total() const { return allocated; }

void check_allocations(const AllocationCount& count, std::size_t input_size, std::size_t per_byte) {
  constexpr std::size_t kConstant = 64u << 10;
  if (count.total() <= per_byte * input_size + kConstant) return;
  std::fprintf(stderr, "an input of %zu bytes made it allocate %zu\n", input_size, count.total());
  std::abort();
}

}  // namespace fuzz
