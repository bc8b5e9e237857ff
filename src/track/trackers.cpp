#include "track/trackers.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "track/mlflow.h"
#include "track/tensorboard.h"
#include "track/wandb.h"

namespace dpo::track {
namespace {

// Calls all trackers, even after one fails.
template <typename Call>
bool for_all(const std::vector<std::unique_ptr<Tracker>>& trackers, Call call) {
  bool written = true;
  for (const auto& tracker : trackers) written = call(*tracker) && written;
  return written;
}

}  // namespace

Trackers::Trackers(const Settings& settings, const History& history) {
  if (settings.tensorboard) all_.push_back(open_tensorboard(settings, history));
  if (settings.wandb) all_.push_back(open_wandb(settings, history));
  if (settings.mlflow) start_mlflow(settings, history);
}

void Trackers::start_mlflow(const Settings& settings, const History& history) {
  std::string problem = settings.mlflow->problem;
  try {
    if (problem.empty()) all_.push_back(open_mlflow(settings, history));
  } catch (const std::exception& error) {  // no more threads, for example
    problem = error.what();
  }
  if (!problem.empty()) notes_.push_back(fmt::format("warning: nothing is sent to MLflow: {}", problem));
}

bool Trackers::add(const Row& row) {
  return for_all(all_, [&](Tracker& tracker) { return tracker.add(row); });
}

bool Trackers::add_histograms(std::int64_t step, std::span<const Distribution> distributions) {
  return for_all(all_, [&](Tracker& tracker) { return tracker.add_histograms(step, distributions); });
}

bool Trackers::add_samples(std::int64_t step, std::span<const SampleText> samples) {
  return for_all(all_, [&](Tracker& tracker) { return tracker.add_samples(step, samples); });
}

bool Trackers::flush() {
  return for_all(all_, [](Tracker& tracker) { return tracker.flush(); });
}

bool Trackers::finish(int exit_status) {
  return for_all(all_, [&](Tracker& tracker) { return tracker.finish(exit_status); });
}

std::vector<std::string> Trackers::notes() {
  std::vector<std::string> all = std::exchange(notes_, {});
  for (const auto& tracker : all_) std::ranges::move(tracker->notes(), std::back_inserter(all));
  return all;
}

Row without_repeated(Row row, const Row& before) {
  if (row.step != before.step) return row;
  const auto is_repeated = [&](const auto& value) {
    return std::ranges::any_of(before.values, [&](const auto& other) { return other.first == value.first; });
  };
  std::erase_if(row.values, is_repeated);
  return row;
}

}  // namespace dpo::track
