// Where the time of updates goes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/profiler.h"

namespace dpo::run {

struct ProfilePart {
  std::string name;
  double seconds = 0;  // of an update
  double calls = 0;    // kernels or operators of an update
};

struct Profile {
  double update = 0;               // seconds, while the profiler recorded
  double idle = 0;                 // of these, nothing ran
  std::vector<ProfilePart> parts;  // by decreasing time
  std::vector<ProfilePart> calls;  // the kernels or operators that take most time
};

// Of `updates` updates that took `seconds` together. Kernels of a GPU are assigned to parts by their names.
Profile profile_of(std::vector<ops::ProfiledSpan> spans, double seconds, std::int64_t updates, bool on_gpu);

// The part of an update that a GPU's kernel belongs to.
std::string part_of_kernel(const std::string& name);

}  // namespace dpo::run
