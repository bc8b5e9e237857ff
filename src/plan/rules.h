#pragma once

#include <vector>

#include "plan/plan.h"

namespace dpo::plan {

inline constexpr std::int64_t kExamplesPerGpu = 2;  // the reference's rule for its sharded trainer

// Every rule's verdict on the case, in the order they are reported. With plan.strict warnings are errors.
std::vector<Finding> check_rules(const Case& c, const Plan& plan);

// Whether heads and MLP divide over so many tensor-parallel ranks.
bool divides_layers(const model::Shape& shape, std::int64_t degree);

// The nearest multiples of `unit` at or below and above `value`; the lower one may be 0.
struct Multiples {
  std::int64_t below = 0;
  std::int64_t above = 0;
};
Multiples nearest_multiples(std::int64_t value, std::int64_t unit);

}  // namespace dpo::plan
