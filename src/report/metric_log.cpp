#include "report/metric_log.h"

#include <algorithm>
#include <cmath>

#include "report/accuracy.h"
#include "report/tail.h"

namespace dpo::report {
namespace {

// These limits bound the memory for a file that is not a run's and may have any names.
constexpr std::size_t kMostMetrics = 1000, kLongestName = 200;

std::optional<double> value_in(const NamedNumbers& numbers, std::string_view name) {
  const auto found = std::ranges::find(numbers, name, &NamedNumbers::value_type::first);
  return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

MetricLog::MetricLog(const std::filesystem::path& file) {
  require_readable(file, "metrics of a run");
  Tail tail(file);
  for (bool more = true; more;) {
    const Tail::Part part = tail.next();
    for (const std::string& line : part.lines) add_line(line);
    more = part.more;
  }
  add_line(tail.last_line());
}

void MetricLog::add_line(std::string_view line) {
  if (!read_numbers(line, numbers_)) return;
  const auto examples = value_in(numbers_, "counters/examples");
  if (!examples) return;
  add_evaluation(*examples);
  count_ties_as_half(numbers_);
  for (const auto& [name, value] : numbers_) {
    auto found = series_.find(name);
    if (found == series_.end()) {
      if (series_.size() == kMostMetrics || name.size() > kLongestName) continue;
      found = series_.emplace(name, Series()).first;
    }
    found->second.add({*examples, value});
  }
}

void MetricLog::add_evaluation(double examples) {
  const auto loss = value_in(numbers_, "loss/eval");
  if (!loss) return;
  evaluations_.push_back({examples, *loss, value_in(numbers_, "rewards_eval/accuracies"),
                          value_in(numbers_, "rewards_eval/margins"),
                          whole_number(value_in(numbers_, "counters/eval_examples").value_or(0))});
}

const Series& MetricLog::series(const std::string& name) const {
  static const Series kNone;
  const auto found = series_.find(name);
  return found == series_.end() ? kNone : found->second;
}

std::int64_t whole_number(double number) { return std::llround(std::clamp(number, -1e15, 1e15)); }

}  // namespace dpo::report
