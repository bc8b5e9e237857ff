#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/run_config.h"
#include "plan/device.h"

namespace dpo::plan {

// Bytes per element of everything a run keeps, by its dtypes and optimizer.
struct Precision {
  std::int64_t weights = 4;  // what the passes compute with
  std::int64_t gradients = 4;
  std::int64_t master = 0;     // float32 copy beside 16-bit weights
  std::int64_t state = 4;      // one value of the optimizer's state
  std::int64_t reduction = 4;  // what a reduce-scatter sends
  std::int64_t reference = 4;
  bool half = false;  // matrix products in 16 bits
};

// `data_ranks`: ranks that divide the batch.
Precision precision_of(const config::RunConfig& run, std::int64_t data_ranks);

// model.fsdp_policy_mp=auto: the type that is fastest on the device, of those that lose nothing; and why, in
// words. Anything else is left as it is, without words.
std::optional<std::string> resolve_precision(config::ModelConfig& model, const Device& device);

bool is_preference(const config::LossConfig& loss);
bool needs_reference(const config::LossConfig& loss);

// Whether the reference scores that a run needs are known before it.
bool can_cache(const config::LossConfig& loss);

}  // namespace dpo::plan
