#include "report/accuracy.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/quantity.h"

namespace dpo::report {

bool are_ties(double accuracy, double margin) { return accuracy == 0 && margin == 0; }

double accuracy_of(double accuracy, double margin) { return are_ties(accuracy, margin) ? 0.5 : accuracy; }

std::string accuracy_text(double accuracy, double margin, std::int64_t examples) {
  const std::string count = examples > 0 ? "n=" + with_commas(examples) : "";
  if (are_ties(accuracy, margin)) return count.empty() ? "0.5 (ties)" : fmt::format("0.5 (ties, {})", count);
  return count.empty() ? fmt::format("{:.3f}", accuracy) : fmt::format("{:.3f} ({})", accuracy, count);
}

void count_ties_as_half(NamedNumbers& metrics) {
  using Names = std::pair<std::string_view, std::string_view>;
  for (const auto& [accuracies, margins] : {Names("rewards_train/accuracies", "rewards_train/margins"),
                                            Names("rewards_eval/accuracies", "rewards_eval/margins")}) {
    const auto accuracy = std::ranges::find(metrics, accuracies, &NamedNumbers::value_type::first);
    const auto margin = std::ranges::find(metrics, margins, &NamedNumbers::value_type::first);
    if (accuracy != metrics.end() && margin != metrics.end())
      accuracy->second = accuracy_of(accuracy->second, margin->second);
  }
}

}  // namespace dpo::report
