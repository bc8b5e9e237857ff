#include "track/mlflow_files.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/output_files.h"
#include "base/parse_json.h"
#include "base/utf8.h"

namespace dpo::track {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

// Limits of the server (mlflow/utils/validation.py).
constexpr std::size_t kMetricsPerRequest = 1000, kParametersPerRequest = 100;
constexpr std::size_t kLongestParameter = 6000, kLongestName = 250;  // characters

fs::path state_file(const fs::path& run) { return run / "mlflow" / "run.json"; }

// In JSON, protocol buffers write NaN and the infinities as text.
ordered_json metric_value(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

std::string cut(const std::string& text, std::size_t characters) {
  return text.substr(0, byte_of_character(text, characters));
}

std::string parameter_name(std::string name) {
  std::ranges::replace_if(
      name, [](char c) { return !is_ascii_letter(c) && !is_ascii_digit(c) && c != '_' && c != '.'; }, '_');
  return cut(name, kLongestName);
}

std::string parameter_value(const ordered_json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  return cut(replace_invalid_utf8(text), kLongestParameter);
}

// Calls `call` with each whole line, including its line end, until it returns false.
template <typename Call>
void for_lines(std::string_view lines, Call call) {
  while (true) {
    const std::size_t end = lines.find('\n');
    if (end == lines.npos || !call(lines.substr(0, end + 1))) return;
    lines.remove_prefix(end + 1);
  }
}

// Calls `call` with each line of a file, without its line end, until it returns false. The file may be larger
// than the memory.
template <typename Call>
void for_lines(std::istream& file, Call call) {
  for (std::string line; std::getline(file, line) && !file.eof();)
    if (!call(line)) return;
}

// Returns an empty object if the line is damaged.
ordered_json parse_line(std::string_view line) {
  ordered_json json = parse_json<ordered_json>(line);
  return json.is_object() ? json : ordered_json::object();
}

// Returns the number of metrics in a line; 0 if the line is damaged.
std::size_t metrics_in(const ordered_json& line) {
  const auto has_number = [&](const char* name) {
    return line.contains(name) && line.at(name).is_number_integer();
  };
  const auto found = line.find("metrics");
  const bool is_whole = found != line.end() && found->is_object() && has_number("step") && has_number("time");
  return is_whole ? found->size() : 0;
}

void add_metrics(ordered_json& all, const ordered_json& line) {
  for (const auto& [name, value] : line.at("metrics").items())
    all.push_back(
        {{"key", name}, {"value", value}, {"timestamp", line.at("time")}, {"step", line.at("step")}});
}

MlflowRequest single_request(const ordered_json& line, const std::string& run_id) try {
  if (line.contains("params")) {
    ordered_json parameters = ordered_json::array();
    for (const auto& [name, value] : line.at("params").items())
      parameters.push_back({{"key", name}, {"value", value}});
    return {.kind = MlflowRequest::Kind::batch,
            .body = ordered_json{{"run_id", run_id}, {"params", parameters}}.dump(),
            .values = static_cast<std::int64_t>(parameters.size())};
  }
  if (line.contains("status")) {
    ordered_json body = {{"run_id", run_id}, {"status", line.at("status")}};
    if (line.at("status") != "RUNNING") body["end_time"] = line.at("time");
    return {.kind = MlflowRequest::Kind::status, .body = body.dump()};
  }
  if (line.contains("artifact"))
    return {.kind = MlflowRequest::Kind::artifact,
            .artifact = line.at("artifact").get<std::string>(),
            .body = line.at("text").get<std::string>()};
  return {};
} catch (const ordered_json::exception&) {
  return {};
}

}  // namespace

fs::path mlflow_queue(const fs::path& run) { return run / "mlflow" / "queue.jsonl"; }

std::optional<MlflowRun> read_mlflow_run(const fs::path& run) try {
  const ordered_json json = ordered_json::parse(read_text_file(state_file(run), "the MLflow run"));
  return MlflowRun{json.at("tracking_uri"),  json.at("experiment"), json.at("run_name"),
                   json.at("tag"),           json.at("start_time"), json.at("sent"),
                   json.at("experiment_id"), json.at("run_id"),     json.at("artifact_uri")};
} catch (const std::exception&) {
  return std::nullopt;
}

void write_mlflow_run(const fs::path& run, const MlflowRun& state) {
  fs::create_directories(run / "mlflow");
  const ordered_json json = {{"tracking_uri", state.uri},
                             {"experiment", state.experiment},
                             {"run_name", state.name},
                             {"tag", state.tag},
                             {"start_time", state.started},
                             {"sent", state.sent},
                             {"experiment_id", state.experiment_id},
                             {"run_id", state.id},
                             {"artifact_uri", state.artifacts}};
  write_file(state_file(run), json.dump(2) + "\n");
}

std::string metrics_line(const Row& row, std::int64_t time) {
  ordered_json line = {{"step", row.step}, {"time", time}, {"metrics", ordered_json::object()}};
  for (const auto& [name, value] : row.values) line["metrics"][name] = metric_value(value);
  return line.dump() + "\n";
}

// Returns a table as mlflow.log_table writes it.
std::string samples_line(std::int64_t step, std::span<const SampleText> samples) {
  ordered_json rows = ordered_json::array();
  for (const SampleText& sample : samples)
    rows.push_back({step, replace_invalid_utf8(sample.prompt), replace_invalid_utf8(sample.policy),
                    sample.reference ? ordered_json(replace_invalid_utf8(*sample.reference)) : nullptr});
  const ordered_json table = {{"columns", {"step", "prompt", "policy", "reference"}}, {"data", rows}};
  return ordered_json{{"artifact", fmt::format("samples/step-{}.json", step)}, {"text", table.dump()}}
             .dump() +
         "\n";
}

std::string status_line(std::string_view status, std::int64_t time) {
  return ordered_json{{"status", status}, {"time", time}}.dump() + "\n";
}

std::string parameter_lines(const std::string& config) {
  ordered_json all = ordered_json::object();
  const ordered_json parsed = ordered_json::parse(config);
  for (const auto& [section, values] : parsed.items()) {
    if (!values.is_object() || values.empty()) {
      all[parameter_name(section)] = parameter_value(values);
      continue;
    }
    for (const auto& [name, value] : values.items())
      all[parameter_name(section + "." + name)] = parameter_value(value);
  }
  std::string lines;
  ordered_json some = ordered_json::object();
  const auto add_line = [&] {
    if (!some.empty()) lines += ordered_json{{"params", some}}.dump() + "\n";
    some = ordered_json::object();
  };
  for (const auto& [name, value] : all.items()) {
    some[name] = value;
    if (some.size() == kParametersPerRequest) add_line();
  }
  add_line();
  return lines;
}

RowName name_of(const Row& row) {
  const auto found =
      std::ranges::find_if(row.values, [](const auto& value) { return std::isfinite(value.second); });
  return {row.step, found == row.values.end() ? "" : found->first};
}

QueuedRows queued_rows(std::istream& queue) {
  QueuedRows queued;
  for_lines(queue, [&](const std::string& line) {
    queued.bytes += line.size() + 1;
    const ordered_json json = parse_line(line);
    if (metrics_in(json) == 0) return true;
    RowName name(json.at("step"), "");
    for (const auto& [metric, value] : json.at("metrics").items())
      if (name.second.empty() && value.is_number()) name.second = metric;
    queued.rows.insert(std::move(name));
    return true;
  });
  return queued;
}

// Ignores the parameter `resume`, because it tells only how the run was started.
bool is_start_of_run(std::istream& queue, const std::string& config) {
  bool has_more = false;
  ordered_json logged = ordered_json::object(), given = ordered_json::object();
  const auto add_parameters = [](ordered_json& all, std::string_view line) {
    all.update(parse_line(line).value("params", ordered_json::object()));
    return true;
  };
  for_lines(queue, [&](const std::string& line) {
    const ordered_json json = parse_line(line);
    has_more = json.contains("metrics") || json.contains("artifact");
    return !has_more && add_parameters(logged, line);
  });
  const std::string lines = parameter_lines(config);
  for_lines(std::string_view(lines), [&](std::string_view line) { return add_parameters(given, line); });
  logged.erase("resume"), given.erase("resume");
  return !has_more && logged == given;
}

std::int64_t count_values(std::istream& lines) {
  std::size_t values = 0;
  for_lines(lines, [&](const std::string& line) {
    const ordered_json json = parse_line(line);
    values += metrics_in(json) + json.value("params", ordered_json::object()).size();
    return true;
  });
  return static_cast<std::int64_t>(values);
}

MlflowRequest next_request(std::string_view lines, const std::string& run_id) {
  ordered_json metrics = ordered_json::array();
  std::size_t bytes = 0;
  MlflowRequest other;
  for_lines(lines, [&](std::string_view line) {
    const ordered_json json = parse_line(line);
    const std::size_t more = metrics_in(json);
    const bool fits = more > 0 && metrics.size() + more <= kMetricsPerRequest;
    if (!fits && bytes > 0) return false;
    bytes += line.size();
    if (more > 0)
      add_metrics(metrics, json);
    else
      other = single_request(json, run_id);
    return more > 0;
  });
  other.bytes = bytes;
  if (metrics.empty()) return other;
  return {.kind = MlflowRequest::Kind::batch,
          .body = ordered_json{{"run_id", run_id}, {"metrics", metrics}}.dump(),
          .bytes = bytes,
          .values = static_cast<std::int64_t>(metrics.size())};
}

}  // namespace dpo::track
