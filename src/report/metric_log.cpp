#include "report/metric_log.h"

#include <sstream>

#include "base/files.h"

namespace dpo::report {

MetricLog::MetricLog(const std::filesystem::path& file) {
  constexpr std::size_t kLargest = 1u << 30;
  std::istringstream text(read_text_file(file, "metrics of a run", kLargest));
  for (std::string line; std::getline(text, line);)
    if (auto value = nlohmann::json::parse(line, nullptr, false); value.is_object())
      lines_.push_back(std::move(value));
}

std::vector<Point> MetricLog::points(const std::string& name) const {
  constexpr const char* kExamples = "counters/examples";
  std::vector<Point> points;
  for (const nlohmann::json& line : lines_) {
    const auto x = line.find(kExamples), y = line.find(name);
    if (x != line.end() && y != line.end() && x->is_number() && y->is_number())
      points.push_back({x->get<double>(), y->get<double>()});
  }
  return points;
}

}  // namespace dpo::report
