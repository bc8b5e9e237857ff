#pragma once

#include <cstdint>
#include <vector>

#include "config/run_config.h"
#include "data/examples.h"
#include "train/records.h"

namespace dpo::train {

using Numbers = std::vector<std::uint32_t>;

// The batches of a whole run, and those of each of its evaluations, as numbers of examples.
std::vector<Numbers> training_batches(const data::Examples& train, const config::RunConfig& config);
std::vector<Numbers> evaluation_batches(const data::Examples& test, const config::RunConfig& config);

ExampleBatch batch_of(const data::Examples& examples, data::Split split, const Numbers& numbers);

}  // namespace dpo::train
