#pragma once

#include <cstdint>
#include <istream>
#include <span>
#include <string>
#include <vector>

#include "base/number_line.h"
#include "loss/loss.h"
#include "run/state_files.h"
#include "track/tensorboard.h"
#include "train/records.h"

namespace dpo::run {

// Names and values, in the order of metrics.jsonl.
using Metrics = NamedNumbers;

// Computes the original implementation's metrics of a batch or an evaluation, as means over the examples:
// loss/train, rewards_train/chosen, logps_train/chosen and so on. `stage` is train or eval. Our own metrics
// follow: the response lengths and, for losses with a reference, how far the policy has moved from it. That
// is the drift of each response's log-probability, and -drift per token over all responses, which estimates
// KL(reference || policy) if the responses are typical of the reference.
// In a ranking, the first response counts as chosen and the last as rejected; its accuracy is the share of
// pairs whose rewards are in the right order. For unpaired losses, all good responses count as chosen and all
// bad ones as rejected; accuracies and margins are those of the pairs. Metrics without any values are left
// out.
Metrics metrics_of(std::span<const train::Record> records, const config::LossConfig& loss,
                   const std::string& stage);

// Returns the rewards and response lengths of an evaluation, which TensorBoard shows as histograms.
std::vector<track::Distribution> distributions_of(std::span<const train::Record> records, double beta);

// Returns the value of a name, or NaN if it is missing.
double value_of(const Metrics& metrics, const std::string& name);

// Returns a line of metrics.jsonl, without the newline.
std::string to_json_line(const Metrics& metrics);

bool is_evaluation(const Metrics& metrics);

// Returns how many bytes of metrics.jsonl come before the checkpoint that a run is resumed from: up to the
// last update that it includes, or its last evaluation. Lines damaged by a crash do not count. The file is
// read backwards, from the last line to the one that is kept.
std::uint64_t bytes_until(std::istream& file, const RunState& run_state);

}  // namespace dpo::run
