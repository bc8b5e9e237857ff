// A rehearsal computes one rank's share of a run of many ranks in one process. Shards, gathered blocks,
// kernels, optimizer and memory are real. Collectives are copies of the right size and take as long as the
// plan says, so only the wires are modelled.
#pragma once

#include "run/bench.h"

namespace dpo::run {

struct RehearsalResult {
  BenchResult bench;        // of the run of all ranks
  BenchResult instant;      // the same updates, if transfers took no time
  double on_the_wires = 0;  // seconds of an update's transfers

  // Returns the share of that time which did not make the update longer, or 1 without transfers.
  double hidden() const;
};

// Rehearses the rank that gets the longest example of each batch. The plan must be of machines with as many
// GPUs as its mesh has ranks.
RehearsalResult rehearse(const plan::Plan& plan, const plan::Inputs& in, std::int64_t updates);

}  // namespace dpo::run
