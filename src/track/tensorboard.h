// track: shows a run in the tools in which people watch it: event files of TensorBoard, and other trackers
// through their Python packages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "track/append_file.h"

namespace dpo::track {

// Values that are logged together, after an update or an evaluation.
struct Row {
  std::int64_t step = 0;  // examples so far, as in metrics.jsonl
  std::vector<std::pair<std::string, double>> values{};
};

// Calls `use` in order with the rows from before a run was resumed, from step `first` on. Empty if there are
// none. All of them may not fit into memory.
using History = std::function<void(std::int64_t first, const std::function<void(const Row&)>& use)>;

struct Distribution {
  std::string name;
  std::vector<double> values;
};

struct SampleText {
  std::string prompt, policy;
  std::optional<std::string> reference;
};

// Writes RUN/tensorboard: an event file with scalars, the configuration and samples as text, and histograms.
// It never stops a run. Data that cannot be written is kept and tried again with the next call. The functions
// return true if everything so far is written.
class TensorBoard {
 public:
  struct Settings {
    std::filesystem::path run;
    std::string config;  // of the run, a JSON object
    // State of the checkpoint that the run is resumed from: its number of examples, and the step of its last
    // evaluation.
    std::int64_t examples = 0, evaluated = -1;
  };

  // `history` has the rows up to the checkpoint that a run is resumed from. Rows that the files lack are
  // added. Later rows are dropped, because they will be logged again.
  TensorBoard(const Settings& settings, const History& history);

  bool add(const Row& row);
  // These belong to the evaluation whose row was just added.
  bool add_histograms(std::int64_t step, std::span<const Distribution> distributions);
  bool add_samples(std::int64_t step, std::span<const SampleText> samples);
  // Must be called before a checkpoint is saved, because a run that resumes from it does not log earlier rows
  // again.
  bool flush();

 private:
  // `files` are those of earlier processes of the run.
  TensorBoard(const Settings& settings, const History& history,
              const std::vector<std::filesystem::path>& files);

  AppendFile file_;
  Row last_{.step = -1};
};

}  // namespace dpo::track
