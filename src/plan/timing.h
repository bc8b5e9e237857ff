#pragma once

#include <cstdint>
#include <optional>

#include "plan/passes.h"

namespace dpo::plan {

// Tokens per GPU and microbatch that hide the communication of a sharded run.
struct TokenThreshold {
  double scale_well = 0;    // compute hides gather and reduce-scatter in the backward pass
  double beat_one_gpu = 0;  // below this, all GPUs together are slower than one alone
};

// Limits of one sampling: the texts that a model generates at an evaluation.
struct Sampled {
  std::int64_t texts = 0;           // 0: the run has none
  std::int64_t tokens = 0;          // limit for each text; max_length may end it before
  std::optional<double> seconds{};  // after which texts are cut; nullopt: no limit
};

struct Timing {
  MicrobatchTime microbatch;      // of a rank with the mean work, but `elapsed` is that of the slowest rank
  double slowest_rank = 1;        // its work over the mean
  double gradient_reduction = 0;  // seconds per update that the last backward pass does not hide
  double optimizer = 0;           // seconds per update
  double update = 0;              // seconds of a whole update, with all its microbatches
  double least_matmuls = 0;       // seconds of its matmuls at the device's peak
  double least_attention = 0;     // seconds of its attention at that peak
  double examples_per_second = 0;
  double tokens_per_second = 0;
  double model_flops_utilization = 0;  // of the devices' peak
  TokenThreshold threshold;            // zero unless sharded over several GPUs

  std::int64_t examples = 0;  // trained on in the whole run
  std::int64_t updates = 0;
  std::int64_t evaluations = 0;
  double training_hours = 0;
  std::int64_t checkpoints = 0;  // written, whether or not they are kept
  double evaluation_hours = 0;
  double reference_hours = 0;  // scoring the data once for a cached reference
  Sampled sampled;             // at each of the policy's evaluations, and once from the reference
  std::int64_t samplings = 0;  // of policy and reference together
  double sampling_hours = 0;
  double checkpoint_hours = 0;  // spent waiting for checkpoints
  double energy_kwh = 0;
  double cost_usd = 0;

  double total_hours() const {
    return training_hours + evaluation_hours + reference_hours + sampling_hours + checkpoint_hours;
  }
};

// Intervals of evaluations and checkpoints, in examples, and the size of a checkpoint.
struct Intervals {
  std::optional<std::int64_t> evaluate, save;
  double checkpoint_bytes = 0;
};

Timing timing_of(const Workload& w, const Intervals& intervals);

}  // namespace dpo::plan
