#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loss/loss.h"
#include "run/state_files.h"
#include "train/records.h"

namespace dpo::run {

// Names and values, in the order in which they are shown.
using Metrics = std::vector<std::pair<std::string, double>>;

// The original's metrics of a batch or an evaluation, means over the examples: loss/train,
// rewards_train/chosen, logps_train/chosen and so on; `stage` is train or eval. Then ours: the response
// lengths, and for losses with a reference how far the policy has moved from it: the drift of each
// response's log-probability, and -drift per token over all responses, which estimates the divergence
// KL(reference | policy) as far as the responses are such as the reference would write. Of a
// ranking the first is the chosen and the last the rejected one; its accuracy is the share of all its pairs
// that are ordered rightly.
Metrics metrics_of(std::span<const train::Record> records, const loss::Options& loss,
                   const std::string& stage);

// The value of a name, or NaN.
double value_of(const Metrics& metrics, const std::string& name);

// A line of metrics.jsonl, without its end.
std::string line_of(const Metrics& metrics);

// What a line holds; members that are no numbers are passed over. Nothing where it is no JSON object: a crash
// may cut a line off.
std::optional<Metrics> parse_metrics(std::string_view line);

bool is_evaluation(const Metrics& metrics);

// The lines of such a file that a run which goes on from there keeps: updates up to its examples, evaluations
// up to the last that it remembers.
std::string lines_until(std::string_view lines, const RunState& progress);

}  // namespace dpo::run
