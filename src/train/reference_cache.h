#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "config/run_config.h"
#include "data/examples.h"
#include "train/listener.h"
#include "train/reference.h"

namespace dpo::train {

// The reference scores of every example that the run will see, from files in `folder` where they were
// computed before for the same weights (their fingerprint), precision, tokenizer and examples. What is
// missing is computed, in the run's own batches, and kept from time to time, so that hardly anything is lost
// with the process. A sample of what was found is computed again; scores that differ are a UserError.
CachedScores find_or_compute_scores(const std::filesystem::path& folder, const ReferenceModel& reference,
                                    const shard::Mesh& mesh, const data::Examples& train,
                                    const std::optional<data::Examples>& test, const std::string& tokenizer,
                                    const std::string& fingerprint, const config::RunConfig& config,
                                    const Listener& listener);

// How far two scores of a response may be apart that differ by the shapes of their batches alone.
double rounding_of(double score, std::int64_t tokens, at::ScalarType type);

}  // namespace dpo::train
