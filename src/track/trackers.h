// track: logs runs for the tools in which people watch them: files of TensorBoard and of Weights & Biases,
// and requests to an MLflow server.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace dpo::track {

// Values that are logged together, after an update or an evaluation. The step and the name of the first value
// identify a row.
struct Row {
  std::int64_t step = 0;  // examples so far, as in metrics.jsonl
  bool is_evaluation = false;
  std::vector<std::pair<std::string, double>> values{};
};

// Calls `use` in order with the rows from before a run was resumed, from step `first` on. Empty if there are
// none. Each tracker reads only the rows that it needs, since all of them may not fit into memory.
using History = std::function<void(std::int64_t first, const std::function<void(const Row&)>& use)>;

struct Distribution {
  std::string name;
  std::vector<double> values;
};

struct SampleText {
  std::string prompt, policy;
  std::optional<std::string> reference;
};

// A tracker never stops a run. Data that it cannot write is kept and tried again with the next call. The
// functions return true if everything so far is written.
class Tracker {
 public:
  virtual ~Tracker() = default;
  virtual bool add(const Row& row) = 0;
  // These belong to the evaluation whose row was just added.
  virtual bool add_histograms(std::int64_t step, std::span<const Distribution> distributions) = 0;
  virtual bool add_samples(std::int64_t step, std::span<const SampleText> samples) = 0;
  // Must be called before a checkpoint is saved, because a run that resumes from it does not log earlier rows
  // again.
  virtual bool flush() = 0;
  // Ends this process's part of the run. A resumed run continues.
  virtual bool finish(int exit_status) = 0;
  // Returns messages for the user since the last call.
  virtual std::vector<std::string> notes() { return {}; }
};

struct WandbSettings {
  std::string name, project;
  std::optional<std::string> entity;
};

struct MlflowSettings {
  std::string uri, experiment, name;
  // Waits: between requests; before the first retry (doubled after each failure, up to `longest_retry`); and
  // for the server at the end of the run.
  std::chrono::milliseconds interval{1000}, retry{5000}, longest_retry{60000}, finish{10000};
  bool from_environment = false;
  std::string problem{};  // why MLFLOW_TRACKING_URI, which other programs use too, cannot be used
};

struct Settings {
  std::filesystem::path folder;  // of the run
  std::string config;            // of the run, a JSON object
  bool tensorboard = false;
  std::optional<WandbSettings> wandb{};
  std::optional<MlflowSettings> mlflow{};
  // State of the checkpoint that the run is resumed from: its number of examples, and the step of its last
  // evaluation.
  std::int64_t examples = 0, evaluated = -1;
};

// All trackers of a run.
class Trackers {
 public:
  Trackers() = default;  // no trackers
  // `history` has the rows up to the checkpoint that a run is resumed from. Rows that a tracker's files lack
  // are added to them. Later rows are dropped, because they will be logged again.
  Trackers(const Settings& settings, const History& history);

  bool add(const Row& row);
  bool add_histograms(std::int64_t step, std::span<const Distribution> distributions);
  bool add_samples(std::int64_t step, std::span<const SampleText> samples);
  bool flush();
  bool finish(int exit_status);
  std::vector<std::string> notes();

 private:
  void start_mlflow(const Settings& settings, const History& history);

  std::vector<std::unique_ptr<Tracker>> all_;
  std::vector<std::string> notes_;
};

// Returns `row` without the values that `before` has logged at the same step: an evaluation repeats the
// counters of the update before it.
Row without_repeated(Row row, const Row& before);

// Returns the folder of a run for 'wandb sync', if it has one.
std::optional<std::filesystem::path> wandb_folder(const std::filesystem::path& run);

}  // namespace dpo::track
