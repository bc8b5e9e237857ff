#pragma once

#include <cstddef>
#include <span>

#include <c10/core/ScalarType.h>

#include "comm/group.h"

namespace dpo::comm {

// Computes into[i] = parts[0][i] + parts[1][i] + ... (or their maximum). The order is the same on every rank,
// so all get the same bits. 16-bit floats are summed in float32 and rounded once. `into` may be one of the
// parts.
void combine(c10::ScalarType type, Reduction reduction, void* into, std::span<const void* const> parts,
             std::size_t count);

}  // namespace dpo::comm
