#include "train/metric_lines.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

namespace dpo::train {

using nlohmann::ordered_json;

std::string line_of(const Metrics& metrics) {
  ordered_json line;
  for (const auto& [name, value] : metrics) line[name] = value;
  return line.dump();
}

std::optional<Metrics> parse_metrics(std::string_view line) {
  const auto values = ordered_json::parse(line.begin(), line.end(), nullptr, false);
  if (!values.is_object()) return std::nullopt;
  Metrics metrics;
  for (const auto& [name, value] : values.items())
    if (value.is_number()) metrics.emplace_back(name, value.get<double>());
  return metrics;
}

bool is_evaluation(const Metrics& metrics) { return !std::isnan(value_of(metrics, "loss/eval")); }

std::string lines_until(std::string_view lines, const Progress& progress) {
  std::string kept;
  for (std::size_t start = 0; start < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', start), lines.size());
    const std::string_view line = lines.substr(start, end - start);
    start = end + 1;
    const auto metrics = parse_metrics(line);
    if (!metrics) continue;
    const std::int64_t last = is_evaluation(*metrics) ? progress.evaluated : progress.examples;
    if (!(value_of(*metrics, "counters/examples") > static_cast<double>(last))) kept.append(line) += '\n';
  }
  return kept;
}

}  // namespace dpo::train
