#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "train/metrics.h"
#include "train/state_files.h"

namespace dpo::train {

// A line of metrics.jsonl, without its end.
std::string line_of(const Metrics& metrics);

// What a line holds; members that are no numbers are passed over. Nothing where it is no JSON object: a crash
// may cut a line off.
std::optional<Metrics> parse_metrics(std::string_view line);

bool is_evaluation(const Metrics& metrics);

// The lines of such a file that a run which goes on from there keeps: updates up to its examples, evaluations
// up to the last that it remembers.
std::string lines_until(std::string_view lines, const Progress& progress);

}  // namespace dpo::train
