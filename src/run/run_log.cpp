#include "run/run_log.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "base/quantity.h"

namespace dpo::run {
namespace {

double seconds_since(RunLog::Clock::time_point start) {
  return std::chrono::duration<double>(RunLog::Clock::now() - start).count();
}

}  // namespace

RunLog::RunLog(RunFolder& folder, const train::Listener& listener, const config::RunConfig& config,
               std::int64_t updates)
    : folder_(folder),
      listener_(listener),
      log_interval_(config.minimum_log_interval_secs),
      updates_(updates),
      diagnosis_(config.max_grad_norm) {}

void RunLog::say(const std::string& line) {
  listener_.say(line);
  warn_unless(folder_.log(line));
}

void RunLog::say(const std::vector<RunWarning>& warnings) {
  for (const RunWarning& warning : warnings) say("warning: " + warning.text);
}

void RunLog::warn_unless(bool written) {
  if (written || std::exchange(warned_, true)) return;
  listener_.say(
      fmt::format("warning: cannot write to {} (is the disk full?); training continues; log, metrics, "
                  "evaluation and sample lines may be lost",
                  folder_.path().string()));
}

void RunLog::say_tracker_notes() {
  for (const std::string& note : folder_.tracker_notes()) say(note);
}

void RunLog::replay_history() {
  for (const Metrics& metrics : folder_.history()) {
    is_evaluation(metrics) ? diagnosis_.after_evaluation(metrics) : diagnosis_.after_update(metrics);
    if (is_evaluation(metrics)) remember(metrics);
  }
}

void RunLog::remember(const Metrics& evaluation) {
  if (!first_evaluation_) first_evaluation_ = evaluation;
  last_evaluation_ = evaluation;
}

void RunLog::after_loading(std::span<const data::SourceCounts> counts) {
  say_tracker_notes();
  say(diagnosis_.after_loading(counts));
}

void RunLog::after_update(const Metrics& metrics, const RunState& run_state, Clock::time_point start) {
  if (updates_here_++ == 0) first_update_ = start;
  say(diagnosis_.after_update(metrics));
  if (seconds_since(logged_) < log_interval_ && run_state.updates > 1) return;
  logged_ = Clock::now();
  say(progress_line(update_name(run_state.updates), metrics, "train", run_state) + time_left(run_state));
  warn_unless(folder_.add_metrics(metrics));
  say_tracker_notes();
}

void RunLog::after_evaluation(const Metrics& metrics, std::span<const train::Record> records,
                              const RunState& run_state, double beta) {
  remember(metrics);
  say(progress_line("evaluation", metrics, "eval", run_state));
  warn_unless(folder_.add_metrics(metrics));
  warn_unless(folder_.write_records(run_state.examples, records, beta));
  say(diagnosis_.after_evaluation(metrics));
}

void RunLog::after_samples(std::span<const Sample> policy, std::span<const Sample> reference,
                           const RunState& run_state) {
  warn_unless(folder_.write_samples(run_state.examples, policy, reference));
  say(diagnosis_.after_samples(policy));
}

void RunLog::before_saving() { warn_unless(folder_.flush()); }

void RunLog::after_training(const RunState& run_state) {
  say(summary(run_state));
  if (diagnosis_.warnings().empty()) return;
  say("warnings of this run:");
  for (const RunWarning& warning : diagnosis_.warnings()) say("  * " + warning.text);
}

std::string RunLog::update_name(std::int64_t update) const {
  return fmt::format("update {} of {}", update, updates_);
}

// "update 36 of 400      1152 examples  loss 10.2273  norm 5.35  lr 0.002  212.1 examples/s"
std::string RunLog::progress_line(const std::string& what, const Metrics& metrics, const std::string& stage,
                                  const RunState& run_state) const {
  std::string line = fmt::format("{:<{}} {:>8} examples  loss {:.4f}", what, update_name(updates_).size(),
                                 run_state.examples, value_of(metrics, "loss/" + stage));
  const double accuracy = value_of(metrics, "rewards_" + stage + "/accuracies");
  if (!std::isnan(accuracy))
    line += fmt::format("  accuracy {:.3f}  margin {:+.3f}", accuracy,
                        value_of(metrics, "rewards_" + stage + "/margins"));
  if (stage == "train")
    line += fmt::format("  norm {:.3g}  lr {:.2g}  {:.1f} examples/s", value_of(metrics, "grad_norm"),
                        value_of(metrics, "learning_rate"), value_of(metrics, "examples_per_second"));
  return line;
}

// By the mean since this process began to train, evaluations and samples included.
std::string RunLog::time_left(const RunState& run_state) const {
  const auto left = static_cast<double>(updates_ - run_state.updates);
  if (left <= 0) return "";
  const double each = seconds_since(first_update_) / static_cast<double>(updates_here_);
  return fmt::format(", {} left", rough_duration(left * each));
}

// "done: 400 updates, 1,600 examples; evaluation: loss 0.6931 -> 0.4127, accuracy 0.5000 -> 0.8125"
std::string RunLog::summary(const RunState& run_state) const {
  std::string text =
      fmt::format("done: {}, {}", plural(run_state.updates, "update"), plural(run_state.examples, "example"));
  if (!last_evaluation_) return text;
  const auto change = [&](const std::string& name) {
    const double first = value_of(*first_evaluation_, name), last = value_of(*last_evaluation_, name);
    return first == last ? fmt::format("{:.4f}", last) : fmt::format("{:.4f} -> {:.4f}", first, last);
  };
  text += "; evaluation: loss " + change("loss/eval");
  if (!std::isnan(value_of(*last_evaluation_, "rewards_eval/accuracies")))
    text += ", accuracy " + change("rewards_eval/accuracies");
  return text;
}

}  // namespace dpo::run
