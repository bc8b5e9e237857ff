#include "report/metric_log.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/files.h"

namespace dpo::report {

MetricLog::MetricLog(const std::filesystem::path& file) {
  constexpr std::size_t kLargest = 1u << 30;
  const std::string text = read_text_file(file, "metrics of a run", kLargest);
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const auto line = nlohmann::json::parse(text.data() + start, text.data() + end, nullptr, false);
    start = end + 1;
    if (!line.is_object()) continue;
    const auto examples = line.find("counters/examples");
    if (examples == line.end() || !examples->is_number()) continue;
    for (const auto& [name, value] : line.items())
      if (value.is_number()) points_[name].push_back({examples->get<double>(), value.get<double>()});
  }
}

const std::vector<Point>& MetricLog::points(const std::string& name) const {
  static const std::vector<Point> kNone;
  const auto found = points_.find(name);
  return found == points_.end() ? kNone : found->second;
}

std::int64_t whole_number(double number) { return std::llround(std::clamp(number, -1e15, 1e15)); }

std::vector<std::size_t> some_of(std::size_t count, std::size_t most) {
  std::vector<std::size_t> indices;
  if (count <= most)
    for (std::size_t i = 0; i < count; ++i) indices.push_back(i);
  else
    for (std::size_t i = 0; i < most; ++i) indices.push_back(i * (count - 1) / (most - 1));
  return indices;
}

std::vector<Point> means_of(const std::vector<Point>& points, std::size_t most) {
  if (points.size() <= most) return points;
  std::vector<Point> means;
  for (std::size_t group = 0; group < most; ++group) {
    const std::size_t begin = group * points.size() / most, end = (group + 1) * points.size() / most;
    Point mean;
    for (std::size_t i = begin; i < end; ++i) mean.x += points[i].x, mean.y += points[i].y;
    means.push_back({mean.x / static_cast<double>(end - begin), mean.y / static_cast<double>(end - begin)});
  }
  return means;
}

}  // namespace dpo::report
