#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/run_config.h"
#include "data/examples.h"
#include "train/events.h"
#include "train/reference.h"

namespace dpo::train {

// Returns the reference scores of every example of the run. Reads them from `folder` if they were computed
// before with the same weights (by their fingerprint), config.json, precision, tokenizer and examples, and if
// the file is not damaged. Missing scores are computed, in the run's own batches, and saved every minute
// together with those of other runs. Some of the scores that were read are computed again. Throws a UserError
// if they differ.
CachedScores find_or_compute_scores(const std::filesystem::path& folder, const ReferenceModel& reference,
                                    const shard::Mesh& mesh, const data::Examples& train,
                                    const std::optional<data::Examples>& test, const std::string& tokenizer,
                                    const std::string& fingerprint, const config::RunConfig& config,
                                    const Listener& listener);

// Returns how much two scores of a response may differ if only the shapes of their batches do. `dtype` is
// that of the matmuls.
double rounding_of(double score, std::int64_t tokens, at::ScalarType dtype);

}  // namespace dpo::train
