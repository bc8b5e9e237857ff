#include "report/plan_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/quantity.h"

namespace dpo::report {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double number_in(const nlohmann::json& object, const char* pointer) {
  const nlohmann::json::json_pointer at(pointer);
  if (!object.contains(at)) return kUnknown;
  const nlohmann::json& value = object[at];
  return value.is_number() ? value.get<double>() : kUnknown;
}

double last_of(const std::vector<Point>& points) { return points.empty() ? kUnknown : points.back().y; }

double largest_of(const std::vector<Point>& points) {
  double largest = points.empty() ? kUnknown : points.front().y;
  for (const Point& point : points) largest = std::max(largest, point.y);
  return largest;
}

std::string whole(double number) { return with_commas(whole_number(number)); }
std::string seconds_text(double seconds) { return fmt::format("{:.3g} s", seconds); }
std::string hours_text(double hours) { return rough_duration(hours * 3600); }
std::string percent_text(double share) { return fmt::format("{:.1f} %", 100 * share); }

}  // namespace

double median_of(const std::vector<Point>& points) {
  if (points.empty()) return kUnknown;
  std::vector<double> values;
  for (const Point& point : points) values.push_back(point.y);
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Table plan_table(const nlohmann::json& plan, const MetricLog& log, bool finished) {
  Table table{{"", "planned", "measured", "difference"}, {}};
  const auto add = [&](const char* name, double planned, double measured, std::string (*text)(double)) {
    if (!std::isfinite(planned) || !std::isfinite(measured)) return;
    const double difference = 100 * (measured / planned - 1);
    const std::string shown = planned == measured         ? "none"
                              : std::isfinite(difference) ? fmt::format("{:+.0f} %", difference)
                                                          : "";
    table.rows.push_back({{name}, {text(planned)}, {text(measured)}, {shown}});
  };
  const double speed = median_of(log.points("examples_per_second"));
  const double update = number_in(plan, "/resolved/batch_size") / speed;
  const double updates = finished ? last_of(log.points("counters/updates")) : kUnknown;
  add("updates", number_in(plan, "/time/updates"), updates, whole);
  add("evaluations", number_in(plan, "/time/evaluations"),
      finished ? static_cast<double>(log.points("loss/eval").size()) : kUnknown, whole);
  add("time of an update (median)", number_in(plan, "/time/step_seconds"), update, seconds_text);
  add("examples per second (median)", number_in(plan, "/time/examples_per_second"), speed,
      [](double rate) { return fmt::format("{:.1f}", rate); });
  add("tokens per second (median)", number_in(plan, "/time/tokens_per_second"),
      median_of(log.points("tokens_per_second")), whole);
  add("model FLOPs utilization (median)", number_in(plan, "/time/model_flops_utilization"),
      median_of(log.points("mfu")), percent_text);
  add("time of all updates", number_in(plan, "/time/training_hours"), updates * update / 3600, hours_text);
  add("peak memory of a device", number_in(plan, "/memory/total_bytes"),
      largest_of(log.points("peak_memory_gib")) * kGib, memory_size);
  return table;
}

}  // namespace dpo::report
