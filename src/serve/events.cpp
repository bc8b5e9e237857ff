#include "serve/events.h"

#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/number_line.h"
#include "report/accuracy.h"

namespace dpo::serve {
namespace {

using nlohmann::json;
using report::Point;
using report::Series;

constexpr std::chrono::seconds kListEvery{2};

std::string event(const char* name, const std::string& data) {
  return fmt::format("event: {}\ndata: {}\n\n", name, data);
}

// Returns the event with new points of a run. With `again`, they replace the points that the viewer has.
// `metrics` is a JSON object.
std::string points_event(const std::string& run, bool again, const std::string& metrics) {
  return event("points", fmt::format(R"({{"run":"{}","again":{},"metrics":{}}})", run, again, metrics));
}

// Counters are not sent as metrics: counters/examples is the x of every point, and the others grow with it.
bool is_counter(const std::string& metric) { return metric.starts_with("counters/"); }

bool is_evaluation(const std::string& metric) { return metric.find("eval") != metric.npos; }

// New points of metrics, against the number of examples trained on.
using Metrics = std::map<std::string, std::vector<Point>>;

void add_line(Metrics& metrics, const std::string& text) {
  NamedNumbers numbers;
  if (!read_numbers(text, numbers)) return;
  const auto examples = std::ranges::find(numbers, "counters/examples", &NamedNumbers::value_type::first);
  if (examples == numbers.end()) return;
  report::count_ties_as_half(numbers);
  for (const auto& [name, value] : numbers)
    if (!is_counter(name)) metrics[name].push_back({examples->second, value});
}

Metrics summary_of(const report::MetricLog& log) {
  Metrics metrics;
  for (const auto& [name, series] : log.all())
    if (!is_counter(name))
      metrics[name] = is_evaluation(name) ? series.some(kMostPoints) : series.means(kMostPoints);
  return metrics;
}

// Returns {"loss/train": [[x, ...], [y, ...]], ...}.
std::string to_json(const Metrics& metrics) {
  std::string text = "{";
  for (const auto& [name, points] : metrics) {
    std::string xs, ys;
    for (const Point& point : points) {
      xs += fmt::format("{}{:.10g}", xs.empty() ? "" : ",", point.x);
      ys += fmt::format("{}{:.6g}", ys.empty() ? "" : ",", point.y);
    }
    text += fmt::format("{}{}:[[{}],[{}]]", text.size() > 1 ? "," : "",
                        json(name).dump(-1, ' ', true, json::error_handler_t::replace), xs, ys);
  }
  return text + "}";
}

}  // namespace

EventStream::EventStream(Runs& runs, const std::vector<Run>& chosen) : runs_(runs) {
  for (const Run& run : chosen) sources_.push_back({run.id, report::Tail(run.folder / "metrics.jsonl")});
}

std::string EventStream::next() {
  std::string text = next_list();
  text += next_held_out();  // compares the values that next_list has read
  for (Source& source : sources_) text += source.is_new ? all_points(source) : next_points(source);
  return text;
}

std::string EventStream::next_list() {
  const auto now = std::chrono::steady_clock::now();
  if (!last_list_.empty() && now - listed_ < kListEvery) return "";
  listed_ = now;
  std::string list = runs_.list().dump(-1, ' ', true, json::error_handler_t::replace);
  if (list == last_list_) return "";
  last_list_ = std::move(list);
  return event("runs", last_list_);
}

std::string EventStream::next_held_out() {
  std::vector<std::string> ids;
  for (const Source& source : sources_) ids.push_back(source.id);
  const report::HeldOutComparison compared = runs_.compare_held_out(ids);
  std::string text = json{{"text", compared.text}, {"differ", compared.differ()}}.dump();
  if (text == last_held_out_) return "";
  last_held_out_ = std::move(text);
  return event("held-out", last_held_out_);
}

// Returns the summary that all viewers share. After that, this stream reads the file itself.
std::string EventStream::all_points(Source& source) {
  std::string metrics = "{}";
  runs_.follow(source.id, [&](const report::FollowedRun& run) {
    metrics = to_json(summary_of(run.metrics()));
    source.tail = run.metrics_file();
  });
  source.is_new = false;
  return points_event(source.id, true, metrics);
}

// Sends all points again if the file was replaced, or if more was added than one read returns.
std::string EventStream::next_points(Source& source) {
  const report::Tail::Part part = source.tail.next();
  if (part.restarted || part.more) return all_points(source);
  Metrics metrics;
  for (const std::string& line : part.lines) add_line(metrics, line);
  return metrics.empty() ? "" : points_event(source.id, false, to_json(metrics));
}

}  // namespace dpo::serve
