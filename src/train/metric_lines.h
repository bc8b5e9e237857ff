#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "train/metrics.h"

namespace dpo::train {

// A line of metrics.jsonl, without its end.
std::string line_of(const Metrics& metrics);

// What a line holds; members that are no numbers are passed over. Nothing where it is no JSON object: a crash
// may cut a line off.
std::optional<Metrics> parse_metrics(std::string_view line);

// The lines of such a file up to a number of examples.
std::string lines_until(std::string_view lines, std::int64_t examples);

}  // namespace dpo::train
