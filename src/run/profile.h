// Measures where the time of updates goes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/profiler.h"

namespace dpo::run {

struct ProfilePart {
  std::string name;
  double seconds = 0;  // per update
  double calls = 0;    // kernels or operators per update
};

struct Profile {
  double update = 0;               // seconds per update, measured with the profiler on
  double idle = 0;                 // seconds per update in which nothing ran
  std::vector<ProfilePart> parts;  // by decreasing time; empty on a CPU
  std::vector<ProfilePart> calls;  // kernels or operators that take the most time
};

// Computes the profile of `updates` updates that took `seconds` in total. GPU kernels are assigned to parts
// by name.
Profile profile_of(std::vector<ops::ProfiledSpan> spans, double seconds, std::int64_t updates, bool on_gpu);

// Returns the part of an update that a GPU kernel belongs to.
std::string part_of_kernel(const std::string& name);

}  // namespace dpo::run
