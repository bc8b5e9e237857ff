#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "plan/plan.h"
#include "run/profile.h"
#include "shard/mesh.h"

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

  double mean_seconds() const;
};

// Runs updates of the planned run with random weights and tokens, so it needs neither data nor model files.
// Lengths follow the data set's statistics.
class Bench {
 public:
  // Warms up: kernels are chosen, and memory is allocated. `plan` and `in` must outlive this.
  Bench(const plan::Plan& plan, const plan::Inputs& in, const shard::Mesh& mesh);
  ~Bench();

  // Measures updates. Every call has the same batches.
  BenchResult measure(std::int64_t updates);
  // Runs updates with recording, which costs time.
  Profile profile(std::int64_t updates);

 private:
  struct Parts;
  const plan::Plan& plan_;
  std::unique_ptr<Parts> parts_;
};

// Returns the ranks that the launcher started as a mesh. DPO_LINK_GBYTES_PER_SECOND limits how fast they
// communicate (benchmarks/fsdp_rule.py).
shard::Mesh bench_mesh(const config::RunConfig& config, comm::World world);

}  // namespace dpo::run
