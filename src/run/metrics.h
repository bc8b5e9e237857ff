#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loss/loss.h"
#include "run/state_files.h"
#include "track/trackers.h"
#include "train/records.h"

namespace dpo::run {

// Names and values, in the order of the file.
using Metrics = std::vector<std::pair<std::string, double>>;

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

// The numbers in such a line; other values are ignored. nullopt if it is not a JSON object: a crash may cut a
// line off.
std::optional<Metrics> parse_metrics(std::string_view line);

bool is_evaluation(const Metrics& metrics);

// The lines of metrics.jsonl up to the checkpoint that a run is resumed from: updates up to its examples,
// evaluations up to its last one.
std::string lines_until(std::string_view lines, const RunState& run_state);

}  // namespace dpo::run
