#include "run/run_log.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/open_file.h"
#include "base/quantity.h"
#include "report/accuracy.h"
#include "report/evaluations.h"

namespace dpo::run {
namespace {

using train::Event;

double seconds_since(RunLog::Clock::time_point start) {
  return std::chrono::duration<double>(RunLog::Clock::now() - start).count();
}

// Reads the samples that the run kept of an evaluation; empty if it did not sample.
std::vector<Sample> read_samples(const std::filesystem::path& run, double examples) {
  std::vector<Sample> samples;
  const std::filesystem::path file = run / "samples" / fmt::format("step-{:.0f}.jsonl", examples);
  check_regular(file, "the samples of the run");
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (auto sample = parse_sample(line)) samples.push_back(std::move(*sample));
  return samples;
}

// Formats a reward accuracy for people; for an evaluation, with the number of its examples.
std::string accuracy_in(const Metrics& metrics, const std::string& stage) {
  const double examples = stage == "eval" ? value_of(metrics, "counters/eval_examples") : 0;
  return report::accuracy_text(value_of(metrics, "rewards_" + stage + "/accuracies"),
                               value_of(metrics, "rewards_" + stage + "/margins"),
                               std::isfinite(examples) ? std::llround(examples) : 0);
}

}  // namespace

RunLog::RunLog(RunFolder& folder, const train::Listener& listener, const config::RunConfig& config,
               std::int64_t updates)
    : folder_(folder),
      listener_(listener),
      log_interval_(config.minimum_log_interval_secs),
      updates_(updates),
      diagnosis_(config.max_grad_norm) {}

void RunLog::report(const Event& event) {
  listener_.report(event);
  if (!event.line.empty()) warn_unless(folder_.log(event.line));
}

void RunLog::warn(const std::vector<RunWarning>& warnings) {
  for (const RunWarning& warning : warnings)
    report({.kind = Event::Kind::warning, .line = "warning: " + warning.text, .texts = {{"id", warning.id}}});
}

void RunLog::warn_unless(bool written) {
  if (written || std::exchange(warned_, true)) return;
  listener_.warn(
      fmt::format("cannot write to {} (is the disk full?); training continues; log, metrics, "
                  "evaluation and sample lines may be lost",
                  folder_.path().string()));
}

void RunLog::say_tracker_notes() {
  for (const std::string& note : folder_.tracker_notes()) report(train::message_event(note));
}

void RunLog::replay_history() {
  folder_.replay(0, [this](const Metrics& metrics) {
    const bool has_evaluated = is_evaluation(metrics);
    if (has_evaluated) {
      remember(metrics);
      diagnosis_.after_evaluation(metrics);
    } else {
      diagnosis_.after_update(metrics);
    }
    if (has_evaluated || value_of(metrics, "counters/updates") == 1)
      diagnosis_.after_samples(read_samples(folder_.path(), value_of(metrics, "counters/examples")));
  });
}

void RunLog::remember(const Metrics& evaluation) {
  if (!first_evaluation_) first_evaluation_ = evaluation;
  last_evaluation_ = evaluation;
}

void RunLog::after_loading(std::span<const data::SourceCounts> counts) {
  say_tracker_notes();
  warn(diagnosis_.after_loading(counts));
}

// Shows that the first update has begun, because it may take long and no earlier numbers can be shown.
void RunLog::before_update(const RunState& run_state) {
  if (updates_here_ > 0) return;
  listener_.report({.kind = Event::Kind::update,
                    .numbers = {{"counters/updates", static_cast<double>(run_state.updates)},
                                {"total_updates", static_cast<double>(updates_)}}});
}

void RunLog::after_update(const Metrics& metrics, const RunState& run_state, Clock::time_point start) {
  if (updates_here_++ == 0) first_update_ = start;
  const double seconds = seconds_since(start), left = seconds_left(run_state);
  seconds_ += seconds;
  tokens_ += seconds * value_of(metrics, "tokens_per_second");
  warn(diagnosis_.after_update(metrics));
  Event event{.kind = Event::Kind::update, .numbers = metrics};
  event.numbers.emplace_back("total_updates", static_cast<double>(updates_));
  event.numbers.emplace_back("seconds_left", left);
  if (seconds_since(logged_) < log_interval_ && run_state.updates > 1) return listener_.report(event);
  logged_ = Clock::now();
  event.line = progress_line(update_name(run_state.updates), metrics, "train", run_state);
  if (!std::isnan(left)) event.line += fmt::format(", {} left", rough_duration(left));
  report(event);
  warn_unless(folder_.add_metrics(metrics));
  say_tracker_notes();
}

void RunLog::after_evaluation(const Metrics& metrics, std::span<const train::Record> records,
                              const RunState& run_state, double beta) {
  remember(metrics);
  report({.kind = Event::Kind::evaluation,
          .line = progress_line("evaluation", metrics, "eval", run_state),
          .numbers = metrics});
  warn_unless(folder_.add_metrics(metrics));
  warn_unless(folder_.write_records(run_state.examples, records, beta));
  warn(diagnosis_.after_evaluation(metrics));
}

void RunLog::after_samples(std::span<const Sample> policy, std::span<const Sample> reference,
                           const RunState& run_state) {
  warn_unless(folder_.write_samples(run_state.examples, policy, reference));
  warn(diagnosis_.after_samples(policy));
}

void RunLog::write_examples(std::span<const train::ExampleBatch> evaluation,
                            const text::Tokenizer& tokenizer) {
  warn_unless(folder_.write_examples(evaluation, tokenizer));
}

// Writing the report takes seconds in a run with very many evaluations. It is then skipped at some of them,
// so that it takes at most 2 % of the time. A failure is only reported for the last report, at the end of the
// run.
void RunLog::write_report() {
  constexpr double kRest = 50;
  if (report_seconds_ > 0 && seconds_since(reported_) < kRest * report_seconds_) return;
  const Clock::time_point start = Clock::now();
  folder_.write_report();
  reported_ = Clock::now();
  report_seconds_ = seconds_since(start);
}

void RunLog::flush() { warn_unless(folder_.flush()); }

void RunLog::after_snapshot(std::int64_t examples, bool is_best) {
  const std::string name = fmt::format("step-{}", examples);
  say(fmt::format("saving {}{}", name, is_best ? ", the best so far" : ""));
  saved_ = {.kind = Event::Kind::checkpoint,
            .numbers = {{"examples", static_cast<double>(examples)}, {"best", is_best ? 1 : 0}},
            .texts = {{"path", (folder_.path() / name).string()}}};
}

// Writes the line only to the log. resume=auto uses it to tell a run that has lost its checkpoints from one
// that was killed before its first was complete.
void RunLog::after_saving() {
  const std::filesystem::path checkpoint = saved_.texts.front().second;
  warn_unless(folder_.log(fmt::format("saved {}", checkpoint.filename().string())));
  report(saved_);
}

void RunLog::after_training(const RunState& run_state) {
  const SessionStats here{updates_here_, updates_here_ == 0 ? 0 : seconds_since(first_update_),
                          tokens_ / seconds_};
  say(summary(run_state.updates, run_state.examples, here));
  if (last_evaluation_) {
    say(learned(*first_evaluation_, *last_evaluation_));
    say(verdict(*first_evaluation_, *last_evaluation_));
  }
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
  std::string line =
      fmt::format("{:<{}} {:>8} {:<8}  loss {:.4f}", what, update_name(updates_).size(), run_state.examples,
                  run_state.examples == 1 ? "example" : "examples", value_of(metrics, "loss/" + stage));
  const double accuracy = value_of(metrics, "rewards_" + stage + "/accuracies");
  if (!std::isnan(accuracy))
    line += fmt::format("  accuracy {}  margin {:+.3f}", accuracy_in(metrics, stage),
                        value_of(metrics, "rewards_" + stage + "/margins"));
  if (stage == "train")
    line += fmt::format("  norm {:.3g}  lr {:.2g}  {:.1f} examples/s", value_of(metrics, "grad_norm"),
                        value_of(metrics, "learning_rate"), value_of(metrics, "examples_per_second"));
  return line;
}

// Estimates from the mean since this process began to train, including evaluations and samples.
double RunLog::seconds_left(const RunState& run_state) const {
  const auto left = static_cast<double>(updates_ - run_state.updates);
  if (left <= 0) return std::numeric_limits<double>::quiet_NaN();
  return left * seconds_since(first_update_) / static_cast<double>(updates_here_);
}

std::string summary(std::int64_t updates, std::int64_t examples, const SessionStats& here) {
  std::string text = fmt::format("done: {}, {}", plural(updates, "update"), plural(examples, "example"));
  if (here.updates == 0) return text + "; all of them before it was resumed";
  if (here.updates < updates)
    text += fmt::format("; since it was resumed {}", plural(here.updates, "update"));
  return text + fmt::format(" in {}, {} tokens/s in training", rough_duration(here.seconds),
                            with_commas(std::llround(here.tokens_per_second)));
}

std::string learned(const Metrics& first, const Metrics& last) {
  std::vector<std::string> changes;
  const auto add = [&](const char* name, const std::string& metric, const char* format) {
    const double before = value_of(first, metric), after = value_of(last, metric);
    if (!std::isfinite(after)) return;
    const std::string from = fmt::format(fmt::runtime(format), before);
    const std::string to = fmt::format(fmt::runtime(format), after);
    const bool changed = std::isfinite(before) && from != to;
    changes.push_back(fmt::format("{} {}{}", name, changed ? from + " -> " : "", to));
  };
  add("loss", "loss/eval", "{:.4f}");
  if (std::isfinite(value_of(last, "rewards_eval/accuracies"))) {
    const std::string from = accuracy_in(first, "eval"), to = accuracy_in(last, "eval");
    changes.push_back(fmt::format("accuracy {}{}", from != to ? from + " -> " : "", to));
  }
  add("margin", "rewards_eval/margins", "{:+.3f}");
  return fmt::format("evaluation: {}", fmt::join(changes, ", "));
}

std::string verdict(const Metrics& first, const Metrics& last) {
  report::MetricLog log;
  for (const Metrics& evaluation : {first, last}) log.add_line(to_json_line(evaluation));
  return fmt::format("did it learn? {}", report::what_was_learned(log).sentence);
}

}  // namespace dpo::run
