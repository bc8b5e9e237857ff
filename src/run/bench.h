#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/world.h"
#include "plan/plan.h"
#include "run/profile.h"

namespace dpo::run {

struct BenchResult {
  // Of each update after the warm-up, from the end of the one before; on a GPU the optimizer may still run
  // then.
  std::vector<double> seconds;
  double pairs_per_second = 0;  // or examples per second, for SFT
  double tokens_per_second = 0;
  double model_flops_utilization = 0;
  std::uint64_t peak_bytes = 0;  // of the rank that uses most
  double predicted_seconds = 0;  // by the plan
  double predicted_bytes = 0;    // of tensors, like peak_bytes
  std::optional<Profile> profile;
};

// Runs updates of the planned run with random weights and tokens; lengths follow the data set's statistics.
// So it needs neither data nor a model's files.
// With `profile` as many updates again are recorded: recording costs time.
BenchResult bench_training(const plan::Plan& plan, const plan::Inputs& in, std::int64_t updates, bool profile,
                           const comm::World& world);

}  // namespace dpo::run
