// Reads and writes RUN/mlflow: queue.jsonl has all that a run logs for MLflow, and run.json tells how much of
// it was sent, and where.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "track/trackers.h"

namespace dpo::track {

// Content of run.json. It has no credentials.
struct MlflowRun {
  std::string uri, experiment, name;
  std::string tag;                    // our own id of the run, by which it is found on the server
  std::int64_t started = 0;           // milliseconds since 1970
  std::uint64_t sent = 0;             // bytes of queue.jsonl
  std::string experiment_id{}, id{};  // assigned by the server; empty until it has answered
  std::string artifacts{};            // URI of the run's artifacts
};

std::filesystem::path mlflow_queue(const std::filesystem::path& run);
std::optional<MlflowRun> read_mlflow_run(const std::filesystem::path& run);
void write_mlflow_run(const std::filesystem::path& run, const MlflowRun& state);

// These return lines of the queue.
std::string metrics_line(const Row& row, std::int64_t time);
std::string samples_line(std::int64_t step, std::span<const SampleText> samples);
std::string status_line(std::string_view status, std::int64_t time);
// Returns the configuration, a JSON object, as parameters: {"loss": {"beta": 0.1}} becomes loss.beta. A line
// has at most 100, the server's limit per request.
std::string parameter_lines(const std::string& config);

// Identifies a row by its step and the name of its first number. metrics.jsonl has no NaN.
using RowName = std::pair<std::int64_t, std::string>;
RowName name_of(const Row& row);
struct QueuedRows {
  std::set<RowName> rows{};
  std::uint64_t bytes = 0;  // of whole lines: the last line may have been cut off
};
QueuedRows queued_rows(std::istream& queue);
// Returns true if a run with this configuration and without a history can continue the queue: it has nothing
// but the same parameters.
bool is_start_of_run(std::istream& queue, const std::string& config);
// Returns the number of metrics and parameters in these lines.
std::int64_t count_values(std::istream& lines);

// The next request: as many of the first unsent lines as the server accepts at once.
struct MlflowRequest {
  enum class Kind { none, batch, status, artifact };
  Kind kind = Kind::none;  // none: the lines cannot be read
  std::string artifact{};  // the artifact's path
  std::string body{};
  std::size_t bytes = 0;  // of the lines
  std::int64_t values = 0;
};
MlflowRequest next_request(std::string_view lines, const std::string& run_id);

}  // namespace dpo::track
