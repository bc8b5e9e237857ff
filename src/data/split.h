#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/example.h"

namespace dpo::data {

// A batch divided into parts (microbatches times ranks) with as equal numbers of tokens as whole trees allow.
struct Division {
  std::vector<std::vector<std::int64_t>> parts;  // numbers of examples, rising; a part may be empty
  std::int64_t repeated_prompts =
      0;  // trees that had to be cut, counted by the extra copies of their prompts
};

// Depends on the batch and the numbers alone. A tree stays whole unless it alone has more tokens than
// `budget` (0: no limit); then it is cut between examples, and each piece repeats the prompt.
Division divide(std::span<const Example> batch, std::int64_t parts, std::int64_t budget);

}  // namespace dpo::data
