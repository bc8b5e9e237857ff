#include "comm/combine.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

namespace dpo::comm {
namespace {

struct Sum {
  template <typename T>
  T operator()(T a, T b) const {
    return a + b;
  }
};

// Propagates NaN, as a sum does.
struct Max {
  template <typename T>
  T operator()(T a, T b) const {
    return a < b || b != b ? b : a;
  }
};

// Works block by block, so that the sums are still in cache when the next part is added.
template <typename Stored, typename Computed, typename Operation>
void combine_as(Operation operation, void* into, std::span<const void* const> parts, std::size_t count) {
  constexpr std::size_t kBlock = 2048;
  std::array<Computed, kBlock> sums;
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t width = std::min(kBlock, count - start);
    const Stored* first = static_cast<const Stored*>(parts[0]) + start;
    for (std::size_t i = 0; i < width; ++i) sums[i] = static_cast<Computed>(first[i]);
    for (const void* part : parts.subspan(1)) {
      const Stored* values = static_cast<const Stored*>(part) + start;
      for (std::size_t i = 0; i < width; ++i) sums[i] = operation(sums[i], static_cast<Computed>(values[i]));
    }
    Stored* result = static_cast<Stored*>(into) + start;
    for (std::size_t i = 0; i < width; ++i) result[i] = static_cast<Stored>(sums[i]);
  }
}

template <typename Operation>
void combine_by(c10::ScalarType type, Operation operation, void* into, std::span<const void* const> parts,
                std::size_t count) {
  switch (type) {
    case c10::ScalarType::Float: return combine_as<float, float>(operation, into, parts, count);
    case c10::ScalarType::Double: return combine_as<double, double>(operation, into, parts, count);
    case c10::ScalarType::Long: return combine_as<std::int64_t, std::int64_t>(operation, into, parts, count);
    case c10::ScalarType::BFloat16: return combine_as<c10::BFloat16, float>(operation, into, parts, count);
    case c10::ScalarType::Half: return combine_as<c10::Half, float>(operation, into, parts, count);
    default:
      throw std::invalid_argument(std::string("ranks cannot reduce tensors of dtype ") + c10::toString(type));
  }
}

}  // namespace

void combine(c10::ScalarType type, Reduction reduction, void* into, std::span<const void* const> parts,
             std::size_t count) {
  if (reduction == Reduction::sum)
    combine_by(type, Sum{}, into, parts, count);
  else
    combine_by(type, Max{}, into, parts, count);
}

}  // namespace dpo::comm
