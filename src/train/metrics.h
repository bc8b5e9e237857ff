#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "loss/loss.h"
#include "train/records.h"

namespace dpo::train {

// Names and values, in the order in which they are shown.
using Metrics = std::vector<std::pair<std::string, double>>;

// The original's metrics of a batch or an evaluation, means over the examples: loss/train,
// rewards_train/chosen, logps_train/chosen and so on; `stage` is train or eval. Then ours: the response
// lengths, and for losses with a reference how far the policy has moved from it: the drift of each
// response's log-probability, and -drift per token over all responses, which estimates the divergence
// KL(reference | policy) as far as the responses are such as the reference would write. Of a
// ranking the first is the chosen and the last the rejected one; its accuracy is the share of all its pairs
// that are ordered rightly.
Metrics metrics_of(std::span<const Record> records, const loss::Options& loss, const std::string& stage);

// The value of a name, or NaN.
double value_of(const Metrics& metrics, const std::string& name);

}  // namespace dpo::train
