#include "report/series.h"

#include <algorithm>
#include <limits>

namespace dpo::report {

void Series::add(const Point& point) {
  if (groups_.empty() || groups_.back().count == stride_) {
    if (groups_.size() == kMostGroups) merge_groups();
    groups_.push_back({.sum = {}, .first = point});
  }
  Group& group = groups_.back();
  group.sum.x += point.x, group.sum.y += point.y;
  ++group.count;
  largest_ = empty() ? point.y : std::max(largest_, point.y);
  last_ = point;
  ++size_;
}

// Merges neighbouring groups in pairs. Called when all groups are full.
void Series::merge_groups() {
  for (std::size_t i = 0; i < groups_.size() / 2; ++i) {
    const Group &a = groups_[2 * i], &b = groups_[2 * i + 1];
    groups_[i] = {{a.sum.x + b.sum.x, a.sum.y + b.sum.y}, a.first, a.count + b.count};
  }
  groups_.resize(groups_.size() / 2);
  stride_ *= 2;
}

double Series::median() const {
  if (empty()) return std::numeric_limits<double>::quiet_NaN();
  std::vector<double> values;
  for (const Group& group : groups_) values.push_back(group.first.y);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<Point> Series::means(std::size_t most) const {
  std::vector<Point> means;
  const std::size_t count = std::min(most, groups_.size());
  for (std::size_t i = 0; i < count; ++i) {
    Point sum;
    double values = 0;
    for (std::size_t k = i * groups_.size() / count; k < (i + 1) * groups_.size() / count; ++k) {
      sum.x += groups_[k].sum.x, sum.y += groups_[k].sum.y;
      values += static_cast<double>(groups_[k].count);
    }
    means.push_back({sum.x / values, sum.y / values});
  }
  return means;
}

std::vector<Point> Series::some(std::size_t most) const {
  std::vector<Point> points;
  for (const std::size_t i : some_of(groups_.size(), most)) points.push_back(groups_[i].first);
  if (!points.empty()) points.back() = last_;
  return points;
}

std::vector<std::size_t> some_of(std::size_t count, std::size_t most) {
  std::vector<std::size_t> indices;
  if (count <= most)
    for (std::size_t i = 0; i < count; ++i) indices.push_back(i);
  else
    for (std::size_t i = 0; i < most; ++i) indices.push_back(i * (count - 1) / (most - 1));
  return indices;
}

}  // namespace dpo::report
