// track: what a run logs, for the tools in which people watch their runs: files of TensorBoard and of Weights
// & Biases, requests to an MLflow server.
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

// What is logged at once, after an update or an evaluation. Step and name of the first value identify a row.
struct Row {
  std::int64_t step = 0;  // examples so far, as in metrics.jsonl
  bool is_evaluation = false;
  std::vector<std::pair<std::string, double>> values{};
};

// Calls `use` with the rows from before a run was resumed, from step `first` on, in order; empty: there are
// none. Each tracker reads those that it needs, since they may be more than fit into memory.
using History = std::function<void(std::int64_t first, const std::function<void(const Row&)>& use)>;

struct Distribution {
  std::string name;
  std::vector<double> values;
};

struct SampleText {
  std::string prompt, policy;
  std::optional<std::string> reference;
};

// A tracker never stops a run: what it cannot write now it keeps, and tries again with the next call. The
// functions return whether everything so far is written.
class Tracker {
 public:
  virtual ~Tracker() = default;
  virtual bool add(const Row& row) = 0;
  // Of the evaluation whose row was just added.
  virtual bool add_histograms(std::int64_t step, std::span<const Distribution> distributions) = 0;
  virtual bool add_samples(std::int64_t step, std::span<const SampleText> samples) = 0;
  // Called before a checkpoint is saved: a run that is resumed from it does not log again what came before.
  virtual bool flush() = 0;
  // The end of this process; a resumed run continues.
  virtual bool finish(int exit_status) = 0;
  // What the user should know since the last call.
  virtual std::vector<std::string> notes() { return {}; }
};

struct WandbSettings {
  std::string name, project;
  std::optional<std::string> entity;
};

struct MlflowSettings {
  std::string uri, experiment, name;
  // Between requests, before the first try after one that failed (then twice as long, and so on, up to
  // `longest_retry`), and for the server at the end.
  std::chrono::milliseconds interval{1000}, retry{5000}, longest_retry{60000}, finish{10000};
  bool from_environment = false;
  std::string problem{};  // why MLFLOW_TRACKING_URI, meant for other programs too, cannot be used
};

struct Settings {
  std::filesystem::path folder;  // of the run
  std::string config;            // of the run, a JSON object
  bool tensorboard = false;
  std::optional<WandbSettings> wandb{};
  std::optional<MlflowSettings> mlflow{};
  // Of the checkpoint that the run is resumed from: where it is, and the step of its last evaluation.
  std::int64_t examples = 0, evaluated = -1;
};

// All trackers of a run.
class Trackers {
 public:
  Trackers() = default;  // none
  // `history`: the rows up to the checkpoint that a run is resumed from; those that a tracker's files do not
  // have are added to them. Later ones, which will be logged again, are dropped.
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

// Without what the row before has logged at the same step: an evaluation repeats the counters of the update
// before it.
Row without_repeated(Row row, const Row& before);

// The folder of a run for 'wandb sync', if it has one.
std::optional<std::filesystem::path> wandb_folder(const std::filesystem::path& run);

}  // namespace dpo::track
