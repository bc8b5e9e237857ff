#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "run/diagnosis.h"
#include "run/folder.h"
#include "train/events.h"

namespace dpo::run {

// Reports the progress of a run: lines for the user and log.txt, metrics, evaluation records, samples,
// warnings, and a summary.
class RunLog {
 public:
  using Clock = std::chrono::steady_clock;

  // `updates` is the count for the whole run.
  RunLog(RunFolder& folder, const train::Listener& listener, const config::RunConfig& config,
         std::int64_t updates);

  // Reads the metrics and samples that the run wrote before it was resumed. Warnings and the summary depend
  // on them.
  void replay_history();

  void after_loading(std::span<const data::SourceCounts> counts);
  void before_update(const RunState& run_state);
  // `start` is the start of this update.
  void after_update(const Metrics& metrics, const RunState& run_state, Clock::time_point start);
  void after_evaluation(const Metrics& metrics, std::span<const train::Record> records,
                        const RunState& run_state, double beta);
  void after_samples(std::span<const Sample> policy, std::span<const Sample> reference,
                     const RunState& run_state);
  void write_examples(std::span<const train::ExampleBatch> evaluation, const text::Tokenizer& tokenizer);
  void write_report();
  void flush();
  void after_snapshot(std::int64_t examples, bool is_best);  // the snapshot is written in the background
  void after_saving();                                       // when that checkpoint is complete
  void after_training(const RunState& run_state);

 private:
  void report(const train::Event& event);
  void say(const std::string& line) { report({.line = line}); }
  void warn(const std::vector<RunWarning>& warnings);
  void warn_unless(bool written);
  void say_tracker_notes();
  void remember(const Metrics& evaluation);
  std::string update_name(std::int64_t update) const;
  std::string progress_line(const std::string& what, const Metrics& metrics, const std::string& stage,
                            const RunState& run_state) const;
  double seconds_left(const RunState& run_state) const;  // NaN at the end

  RunFolder& folder_;
  const train::Listener& listener_;
  double log_interval_;  // seconds
  std::int64_t updates_;
  Diagnosis diagnosis_;
  std::optional<Metrics> first_evaluation_, last_evaluation_;
  bool warned_ = false;
  Clock::time_point logged_ = Clock::now();
  Clock::time_point reported_;
  double report_seconds_ = 0;       // duration of the last report
  Clock::time_point first_update_;  // of this process, which may have resumed the run
  std::int64_t updates_here_ = 0;   // by this process, like the next two
  double seconds_ = 0, tokens_ = 0;
  train::Event saved_;  // event for the checkpoint that is being written
};

// Totals of one process. A resumed run has more updates.
struct SessionStats {
  std::int64_t updates = 0;
  double seconds = 0;            // including evaluations and samples
  double tokens_per_second = 0;  // during updates
};

// "done: 400 updates, 1,600 examples in 3 min, 5,312 tokens/s in training"
std::string summary(std::int64_t updates, std::int64_t examples, const SessionStats& here);

// "evaluation: loss 0.6931 -> 0.4127, accuracy 0.5 (ties, n=16) -> 0.812 (n=16), margin +0.000 -> +1.234"
std::string learned(const Metrics& first, const Metrics& last);

// "did it learn? Yes: ...", worded as in the report of the run.
std::string verdict(const Metrics& first, const Metrics& last);

}  // namespace dpo::run
