#pragma once

#include <cstdint>
#include <istream>
#include <span>
#include <string>
#include <vector>

#include "base/number_line.h"
#include "loss/loss.h"
#include "run/state_files.h"
#include "track/trackers.h"
#include "train/records.h"

namespace dpo::run {

// Names and values, in the order of the file.
using Metrics = NamedNumbers;

// The original's metrics of a batch or an evaluation, means over the examples: loss/train,
// rewards_train/chosen, logps_train/chosen and so on; `stage` is train or eval. Then ours: the response
// lengths, and for losses with a reference how far the policy has moved from it: the drift of each response's
// log-probability, and -drift per token over all responses, an estimate of KL(reference || policy) if the
// responses are typical of the reference. In a ranking the first response is the chosen and the last the
// rejected one; its accuracy is the share of its pairs whose rewards are in the right order. For unpaired
// losses chosen are all good responses and rejected all bad ones; accuracies and margins are those of the
// pairs. What there is nothing of is left out.
Metrics metrics_of(std::span<const train::Record> records, const loss::Options& loss,
                   const std::string& stage);

// What trackers show of an evaluation as histograms: the rewards and lengths of its responses.
std::vector<track::Distribution> distributions_of(std::span<const train::Record> records, double beta);

// The value of a name, or NaN.
double value_of(const Metrics& metrics, const std::string& name);

// A line of metrics.jsonl, without the newline.
std::string to_json_line(const Metrics& metrics);

bool is_evaluation(const Metrics& metrics);

// Returns how many bytes of metrics.jsonl come before the checkpoint that a run is resumed from: up to the
// last update of its examples, or to its last evaluation. Lines that a crash has damaged do not count. Only
// the end of the file is read, from the last line back to the one that is kept.
std::uint64_t bytes_until(std::istream& file, const RunState& run_state);

}  // namespace dpo::run
