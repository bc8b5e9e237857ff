#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/world.h"
#include "plan/plan.h"
#include "run/profile.h"

namespace dpo::run {

struct BenchResult {
  // Seconds of each update after the warm-up, from the end of the update before it. On a GPU the optimizer
  // may still be running at that point.
  std::vector<double> seconds;
  double pairs_per_second = 0;  // or examples per second, for SFT
  double tokens_per_second = 0;
  double model_flops_utilization = 0;
  std::uint64_t peak_bytes = 0;  // on the rank that uses most
  double predicted_seconds = 0;  // estimated by the plan
  double predicted_bytes = 0;    // estimate for tensors, comparable to peak_bytes
  std::optional<Profile> profile;
};

// Runs updates of the planned run with random weights and tokens, so it needs neither data nor model files.
// Lengths follow the data set's statistics. With `profile`, the same number of updates runs again with
// recording, because recording costs time.
BenchResult bench_training(const plan::Plan& plan, const plan::Inputs& in, std::int64_t updates, bool profile,
                           const comm::World& world);

}  // namespace dpo::run
