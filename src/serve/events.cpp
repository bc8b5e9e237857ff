#include "serve/events.h"

#include <cmath>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace dpo::serve {
namespace {

using nlohmann::json;
using report::Point;

constexpr std::chrono::seconds kListEvery{2};

std::string event(const char* name, const std::string& data) {
  return fmt::format("event: {}\ndata: {}\n\n", name, data);
}

bool is_evaluation(const std::string& metric) { return metric.find("eval") != metric.npos; }

// The metrics of lines, against the number of examples trained on.
using Metrics = std::map<std::string, std::vector<Point>>;

void add_line(Metrics& metrics, const std::string& text) {
  const json line = json::parse(text, nullptr, false);
  if (!line.is_object()) return;
  const auto examples = line.find("counters/examples");
  if (examples == line.end() || !examples->is_number()) return;
  for (const auto& [name, value] : line.items())
    if (value.is_number() && !name.starts_with("counters/") && std::isfinite(value.get<double>()))
      metrics[name].push_back({examples->get<double>(), value.get<double>()});
}

std::vector<Point> fewer(const std::string& metric, const std::vector<Point>& points) {
  if (!is_evaluation(metric)) return report::means_of(points, kMostPoints);
  std::vector<Point> some;
  for (const std::size_t i : report::some_of(points.size(), kMostPoints)) some.push_back(points[i]);
  return some;
}

// {"loss/train": [[x, ...], [y, ...]], ...}
std::string to_json(const Metrics& metrics, bool all) {
  std::string text = "{";
  for (const auto& [name, points] : metrics) {
    const std::vector<Point> shown = all ? points : fewer(name, points);
    std::string xs, ys;
    for (const Point& point : shown) {
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
  for (const Run& run : chosen) sources_.push_back({run.id, Tail(run.folder / "metrics.jsonl")});
}

std::string EventStream::next() {
  std::string text;
  if (const auto now = std::chrono::steady_clock::now(); last_list_.empty() || now - listed_ >= kListEvery) {
    listed_ = now;
    if (std::string list = runs_.list().dump(-1, ' ', true, json::error_handler_t::replace);
        list != last_list_)
      text += event("runs", list), last_list_ = std::move(list);
  }
  for (Source& source : sources_) {
    Metrics metrics;
    bool again = source.is_new;
    for (bool more = true; more;) {
      const Tail::Part part = source.tail.next();
      if (part.restarted) metrics.clear(), again = true;
      for (const std::string& line : part.lines) add_line(metrics, line);
      more = part.more;
    }
    if (metrics.empty() && !again) continue;
    text += event("points", fmt::format(R"({{"run":"{}","again":{},"metrics":{}}})", source.id, again,
                                        to_json(metrics, !again)));
    source.is_new = false;
  }
  return text;
}

}  // namespace dpo::serve
