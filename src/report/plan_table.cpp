#include "report/plan_table.h"

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

std::string whole(double number) { return with_commas(whole_number(number)); }
std::string seconds_text(double seconds) { return fmt::format("{:.3g} s", seconds); }
std::string hours_text(double hours) { return rough_duration(hours * 3600); }
std::string percent_text(double share) { return fmt::format("{:.1f} %", 100 * share); }

}  // namespace

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
  const double speed = log.series("examples_per_second").median();
  const double update = number_in(plan, "/resolved/batch_size") / speed;
  const Series &counted = log.series("counters/updates"), &peaks = log.series("peak_memory_gib");
  const double updates = finished && !counted.empty() ? counted.last().y : kUnknown;
  add("updates", number_in(plan, "/time/updates"), updates, whole);
  add("evaluations", number_in(plan, "/time/evaluations"),
      finished ? static_cast<double>(log.evaluations().size()) : kUnknown, whole);
  add("time of an update (median)", number_in(plan, "/time/step_seconds"), update, seconds_text);
  add("examples per second (median)", number_in(plan, "/time/examples_per_second"), speed,
      [](double rate) { return fmt::format("{:.1f}", rate); });
  add("tokens per second (median)", number_in(plan, "/time/tokens_per_second"),
      log.series("tokens_per_second").median(), whole);
  add("model FLOPs utilization (median)", number_in(plan, "/time/model_flops_utilization"),
      log.series("mfu").median(), percent_text);
  add("time of all updates", number_in(plan, "/time/training_hours"), updates * update / 3600, hours_text);
  add("peak memory of a device", number_in(plan, "/memory/total_bytes"),
      peaks.empty() ? kUnknown : peaks.largest() * kGib, memory_size);
  return table;
}

}  // namespace dpo::report
