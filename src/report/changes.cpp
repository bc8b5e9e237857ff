#include "report/changes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace dpo::report {
namespace {

// Returns the first `most` changes in the order of `less`.
template <class Less>
std::vector<Change> first_of(std::vector<Change> changes, std::size_t most, Less less) {
  const auto end = changes.begin() + static_cast<std::ptrdiff_t>(std::min(most, changes.size()));
  std::partial_sort(changes.begin(), end, changes.end(), less);
  changes.erase(end, changes.end());
  return changes;
}

}  // namespace

Score score_of_evaluation(const std::vector<EvaluatedExample>& examples) {
  const auto is_pair = [](const EvaluatedExample& e) { return e.rewards.size() > 1; };
  const auto has_reward = [](const EvaluatedExample& e) { return e.rewards.front() != 0; };
  if (std::ranges::any_of(examples, is_pair)) return Score::margin;
  return std::ranges::any_of(examples, has_reward) ? Score::reward : Score::loss;
}

std::optional<double> score_of(const EvaluatedExample& example, Score score) {
  switch (score) {
    case Score::margin:
      return example.rewards.size() > 1 ? std::optional(example.rewards.front() - example.rewards.back())
                                        : std::nullopt;
    case Score::reward: return example.desirable ? example.rewards.front() : -example.rewards.front();
    case Score::loss: break;
  }
  return example.loss;
}

std::vector<double> scores_of(const std::vector<EvaluatedExample>& examples, Score score) {
  std::vector<double> scores;
  for (const EvaluatedExample& example : examples)
    if (const auto one = score_of(example, score)) scores.push_back(*one);
  return scores;
}

Changes compare(const std::vector<EvaluatedExample>& first, const std::vector<EvaluatedExample>& last,
                std::size_t most) {
  Changes changes{.score = score_of_evaluation(last)};
  std::map<std::int64_t, double> before;
  for (const EvaluatedExample& example : first)
    if (const auto score = score_of(example, changes.score)) before[example.example] = *score;
  std::vector<Change> all, wrong;
  for (const EvaluatedExample& example : last) {
    const auto score = score_of(example, changes.score);
    if (!score) continue;
    Change change{example.example, example.desirable, *score};
    if (const auto found = before.find(example.example); found != before.end()) change.before = found->second;
    if (changes.score == Score::loss || change.now <= 0) wrong.push_back(change);
    all.push_back(change);
  }
  changes.examples = all.size();
  changes.wrong = wrong.size();
  if (std::ranges::adjacent_find(all, std::not_equal_to<>(), &Change::now) == all.end()) wrong.clear();
  std::erase_if(all, [](const Change& change) { return change.size() == 0; });
  changes.largest = first_of(std::move(all), most, [](const Change& a, const Change& b) {
    return std::abs(a.size()) > std::abs(b.size());
  });
  const bool is_loss = changes.score == Score::loss;
  changes.worst = first_of(std::move(wrong), most, [is_loss](const Change& a, const Change& b) {
    return is_loss ? a.now > b.now : a.now < b.now;
  });
  return changes;
}

std::vector<Point> histogram(const std::vector<double>& values, double low, double high, std::size_t bins) {
  std::vector<Point> bars;
  const double width = (high - low) / static_cast<double>(bins);
  for (std::size_t i = 0; i <= bins; ++i) bars.push_back({low + static_cast<double>(i) * width, 0});
  for (const double value : values) {
    const double bin = std::floor((value - low) / width);
    const double last = static_cast<double>(bins - 1);
    const auto at = bin > 0 ? static_cast<std::size_t>(std::min(bin, last)) : 0;  // 0 also for NaN
    bars[at].y += 1 / static_cast<double>(values.size());
  }
  return bars;
}

}  // namespace dpo::report
