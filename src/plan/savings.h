#pragma once

#include <string>
#include <vector>

#include "plan/inputs.h"

namespace dpo::plan {

using Words = std::vector<std::string>;
Words operator+(Words a, const Words& b);

// The same run with words added to its command: KEY=VALUE, --gpus N or --device NAME.
Inputs changed(const Inputs& in, const Words& words);

// Takes the keys of the mesh away that the run has set.
Words without_mesh(const Inputs& in);

// A change that needs less memory.
struct Saving {
  Words words;
  std::string reason;
};

// Every key that saves memory without touching the split of the batch: those that change nothing but time and
// rounding, from the cheapest to the slowest; and those that change what is learnt, from the least to the
// most.
std::vector<Saving> harmless_savings(const Inputs& in);
std::vector<Saving> costly_savings(const Inputs& in);
std::vector<Saving> all_savings(const Inputs& in);

// The words of all of them, the last of each key, and what they do.
Saving joined(const std::vector<Saving>& savings);

}  // namespace dpo::plan
