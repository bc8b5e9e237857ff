#include "run/loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/quantity.h"
#include "ops/devices.h"
#include "run/diagnosis.h"
#include "run/joint_folder.h"
#include "run/metrics.h"
#include "train/events.h"
#include "train/reference_cache.h"

namespace dpo::run {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What this rank writes of a checkpoint. All ranks find out together whether they see the same folder.
Part part_of(const shard::Mesh& mesh, const std::filesystem::path& folder) {
  return {mesh.layout(), mesh.all->rank(), mesh.all->size(), mesh.replica->rank() == 0,
          check_shared(folder, *mesh.all, mesh.device)};
}

class Run {
 public:
  Run(Prepared& prepared, RunFolder& folder, const train::Listener& listener)
      : p_(prepared),
        folder_(folder),
        listener_(listener),
        part_(part_of(prepared.state.mesh, folder.path())),
        writer_(folder.path(), prepared.config.keep_last, part_),
        diagnosis_(prepared.config.max_grad_norm),
        batches_(prepared.train, prepared.training),
        saved_(prepared.resumed.value_or(-1)) {}

  Outcome execute() {
    try {
      return go_on();
    } catch (const train::TrainingFailure&) {
      writer_.finish();  // all ranks fail together here, and what they are still writing is good
      throw;
    }
  }

 private:
  Outcome go_on() {
    recall();
    if (p_.resumed && !p_.config.debug) writer_.link(*p_.resumed, was_best());
    say(diagnosis_.look_at_data(p_.train.counts()));
    while (true) {
      if (const std::int64_t n = p_.progress.examples; is_evaluation_due(n) && !evaluate_at(n)) return stop();
      if (is_at_end()) break;
      train_on(batches_.next(p_.progress.updates));
      writer_.check();  // a full disk should not be found hours later
      if (train::any_rank_asked_to_stop(mesh())) return stop();
      if (const std::int64_t n = p_.progress.examples; is_save_due(n) && !is_evaluation_due(n)) save();
    }
    save();
    writer_.finish();
    say(summary());
    repeat_findings();
    return Outcome::finished;
  }

  Outcome stop() {
    save();
    writer_.finish();
    return Outcome::stopped;
  }

  const shard::Mesh& mesh() const { return p_.state.mesh; }

  bool is_at_end() const { return p_.progress.updates == batches_.size(); }

  // What LATEST holds in the end is evaluated, wherever the end is.
  bool is_evaluation_due(std::int64_t examples) const {
    const std::optional<std::int64_t>& every = p_.config.eval_every;
    if (!every || examples == p_.progress.evaluated) return false;
    if (examples == 0) return p_.config.do_first_eval;
    return is_at_end() || examples % *every == 0;
  }

  // A checkpoint of a step with an evaluation is made after it.
  bool is_save_due(std::int64_t examples) const {
    const std::optional<std::int64_t>& every = p_.config.save_every;
    return examples > 0 && (is_at_end() || (every && examples % *every == 0));
  }

  // Whether it came to its end: a run that is to stop does so, and evaluates when it goes on.
  bool evaluate_at(std::int64_t examples) {
    std::vector<train::Record> records;
    for (std::size_t i = 0; i < p_.evaluation.size(); ++i) {
      if (train::any_rank_asked_to_stop(mesh())) return false;
      const std::vector<train::Record> more = train::evaluate(p_.state, p_.evaluation[i]);
      records.insert(records.end(), more.begin(), more.end());
      listener_.progress("evaluating", static_cast<std::int64_t>(i + 1),
                         static_cast<std::int64_t>(p_.evaluation.size()), "batches");
    }
    require_finite(records);
    Metrics metrics = metrics_of(records, p_.state.loss, "eval");
    remember(metrics);
    say(line_of("evaluation", metrics, "eval"));
    metrics.emplace_back("counters/eval_examples", static_cast<double>(records.size()));
    add_counters(metrics);
    note(folder_.add_metrics(metrics));
    note(folder_.write_records(examples, records, p_.state.loss.beta));
    say(diagnosis_.after_evaluation(metrics));
    if (p_.config.sample_during_eval) sample(examples);
    p_.progress.evaluated = examples;
    if (is_save_due(examples)) save(is_best(metrics));
    return true;
  }

  // Nothing is saved of a model whose evaluation is not finite.
  void require_finite(const std::vector<train::Record>& records) const {
    std::vector<std::uint32_t> culprits;
    for (const train::Record& record : records)
      if (!std::isfinite(record.loss) ||
          !std::ranges::all_of(record.policy, [](double score) { return std::isfinite(score); }))
        culprits.push_back(record.example);
    if (culprits.empty()) return;
    const std::string why =
        p_.progress.updates == 0
            ? "No update was made yet: the model or the reference itself computes such values"
            : fmt::format("The policy has diverged and was not saved{}. Try a lower lr", last_good());
    throw train::TrainingFailure(
        fmt::format("evaluation after {} examples: loss or log-probability of {} of {} examples is NaN or "
                    "infinite (first: "
                    "example {}). {}",
                    p_.progress.examples, culprits.size(), records.size(), culprits.front(), why));
  }

  // The same for the weights themselves, which the last update may have spoilt. A sum over numbers of which
  // one is not finite is not finite.
  void require_finite_weights() const {
    bool finite = true;
    for (const model::BlockWeights& block : p_.state.policy.stored().blocks)
      finite = finite && std::isfinite(block.flat.sum(at::kFloat).item<float>());
    if (shard::max_over(*mesh().all, finite ? 0 : 1, mesh().device) == 0) return;
    throw train::TrainingFailure(fmt::format(
        "after {} examples the weights of the policy are NaN or infinite. It has diverged and was not "
        "saved{}. Try a lower lr",
        p_.progress.examples, last_good()));
  }

  std::string last_good() const {
    if (saved_ < 0 || saved_ == p_.progress.examples) return "";
    return fmt::format("; step-{} is the last good checkpoint", saved_);
  }

  void train_on(const train::ExampleBatch& batch) {
    const Clock::time_point start = Clock::now();
    if (updates_here_++ == 0) first_update_ = start;
    const bool is_first = p_.progress.updates == 0;
    const train::UpdateResult result =
        train::update(p_.state, batch, [&](const train::UpdateResult& computed) {
          if (is_first) check_first_update(computed);
        });
    wait_for_gpu();  // what it has not done yet belongs to the time of this update
    ++p_.progress.updates;
    p_.progress.examples += static_cast<std::int64_t>(batch.examples.size());
    p_.progress.reward_sum = p_.state.rewards.sum;
    p_.progress.rewards = p_.state.rewards.count;
    const double seconds = seconds_since(start);
    Metrics metrics = metrics_of(result.records, p_.state.loss, "train");
    add_speed(metrics, static_cast<double>(batch.examples.size()), static_cast<double>(result.tokens),
              seconds);
    metrics.emplace_back("grad_norm", result.gradient_norm);
    metrics.emplace_back("learning_rate", result.learning_rate);
    add_counters(metrics);
    say(diagnosis_.after_update(metrics));
    if (seconds_since(logged_) < p_.config.minimum_log_interval_secs && p_.progress.updates > 1) return;
    logged_ = Clock::now();
    say(line_of(update_name(p_.progress.updates), metrics, "train") + time_left());
    note(folder_.add_metrics(metrics));
  }

  // Scores from another run's cache may come from other shapes; those of a live reference do not.
  void check_first_update(const train::UpdateResult& result) const {
    if (!loss::uses_reference(p_.state.loss) || p_.config.model.reference_dtype) return;
    const bool cached = p_.plan.reference == plan::Reference::cached;
    train::require_equal_models(result, cached ? train::reference_dtype(p_.config) : at::kFloat);
  }

  bool is_best(const Metrics& metrics) {
    if (!p_.config.best_metric) return false;
    const double value = value_of(metrics, *p_.config.best_metric);
    const bool lower = p_.config.best_metric->starts_with("loss");
    std::optional<double>& best = p_.progress.best;
    if (p_.progress.best_metric != *p_.config.best_metric)
      best.reset();  // of another metric, before resuming
    p_.progress.best_metric = *p_.config.best_metric;
    if (std::isnan(value) || (best && (lower ? value >= *best : value <= *best))) return false;
    best = value;
    return true;
  }

  void save(bool is_best = false) {
    const std::int64_t examples = p_.progress.examples;
    if (p_.config.debug) return;
    if (examples == saved_) {  // what was resumed from and is evaluated only now
      if (is_best) writer_.link(examples, is_best);
      return;
    }
    require_finite_weights();
    saved_ = examples;
    writer_.finish();  // there is memory for one snapshot
    writer_.write(
        take_snapshot(p_.described, p_.state.policy.stored(), *p_.state.optimizer, p_.progress, part_),
        is_best);
    say(fmt::format("saving step-{}{}", p_.progress.examples, is_best ? ", the best so far" : ""));
  }

  void sample(std::int64_t examples) {
    const std::vector<Sample> samples = draw_samples(p_.state.policy.model(), p_.state.policy.store(),
                                                     p_.evaluation, p_.tokenizer, p_.config, *mesh().all);
    note(folder_.write_samples(examples, to_json_lines(samples, p_.reference_samples)));
    say(diagnosis_.after_samples(samples));
  }

  // The share of the peak is known where the plan was made for the device that runs: not on a CPU.
  void add_speed(Metrics& metrics, double examples, double tokens, double seconds) const {
    metrics.emplace_back("examples_per_second", examples / seconds);
    metrics.emplace_back("tokens_per_second", tokens / seconds);
    const bool on_gpu = !mesh().device.is_cpu();
    const plan::Timing& planned = p_.plan.timing;
    if (on_gpu)
      metrics.emplace_back("mfu",
                           planned.model_flops_utilization * tokens / seconds / planned.tokens_per_second);
    const double peak = static_cast<double>(peak_memory(on_gpu)) / kGib;
    metrics.emplace_back("peak_memory_gib", shard::max_over(*mesh().all, peak, mesh().device));
  }

  void add_counters(Metrics& metrics) const {
    metrics.emplace_back("counters/examples", static_cast<double>(p_.progress.examples));
    metrics.emplace_back("counters/updates", static_cast<double>(p_.progress.updates));
  }

  std::string update_name(std::int64_t update) const {
    return fmt::format("update {} of {}", update, batches_.size());
  }

  // By the mean since this process began to train, evaluations and samples included.
  std::string time_left() const {
    const auto left = static_cast<double>(batches_.size() - p_.progress.updates);
    if (left <= 0) return "";
    const double each = seconds_since(first_update_) / static_cast<double>(updates_here_);
    return fmt::format(", {} left", rough_duration(left * each));
  }

  std::string line_of(const std::string& what, const Metrics& metrics, const std::string& stage) const {
    std::string line =
        fmt::format("{:<{}} {:>8} examples  loss {:.4f}", what, update_name(batches_.size()).size(),
                    p_.progress.examples, value_of(metrics, "loss/" + stage));
    const double accuracy = value_of(metrics, "rewards_" + stage + "/accuracies");
    if (!std::isnan(accuracy))
      line += fmt::format("  accuracy {:.3f}  margin {:+.3f}", accuracy,
                          value_of(metrics, "rewards_" + stage + "/margins"));
    if (stage == "train")
      line += fmt::format("  norm {:.3g}  lr {:.2g}  {:.1f} examples/s", value_of(metrics, "grad_norm"),
                          value_of(metrics, "learning_rate"), value_of(metrics, "examples_per_second"));
    return line;
  }

  void say(const std::string& line) {
    listener_.say(line);
    note(folder_.log(line));
  }

  // Whether something of the log was written.
  void note(bool written) {
    if (written || std::exchange(warned_, true)) return;
    listener_.say(
        fmt::format("warning: cannot write to {} (is the disk full?); training continues without the log, "
                    "metrics, evaluation or sample lines that do not fit",
                    folder_.path().string()));
  }

  void say(const std::vector<Finding>& findings) {
    for (const Finding& finding : findings) say("noticed: " + finding.text);
  }

  // What the diagnosis saw before the run was resumed.
  void recall() {
    for (const Metrics& metrics : folder_.history()) {
      is_evaluation(metrics) ? diagnosis_.after_evaluation(metrics) : diagnosis_.after_update(metrics);
      if (is_evaluation(metrics)) remember(metrics);
    }
  }

  // Whether the checkpoint that it goes on from was the best: the process may have ended before BEST said so.
  bool was_best() const {
    const RunState& progress = p_.progress;
    return p_.config.best_metric == progress.best_metric && progress.evaluated == *p_.resumed &&
           last_evaluation_ && value_of(*last_evaluation_, progress.best_metric) == progress.best;
  }

  void remember(const Metrics& evaluation) {
    if (!first_evaluation_) first_evaluation_ = evaluation;
    last_evaluation_ = evaluation;
  }

  // "done: 400 updates, 1,600 examples; evaluation: loss 0.6931 -> 0.4127, accuracy 0.5000 -> 0.8125"
  std::string summary() const {
    std::string text = fmt::format("done: {}, {}", plural(p_.progress.updates, "update"),
                                   plural(p_.progress.examples, "example"));
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

  void repeat_findings() {
    if (diagnosis_.findings().empty()) return;
    say("what was noticed during the run:");
    for (const Finding& finding : diagnosis_.findings()) say("  * " + finding.text);
  }

  Prepared& p_;
  RunFolder& folder_;
  const train::Listener& listener_;
  const Part part_;
  CheckpointWriter writer_;
  Diagnosis diagnosis_;
  train::OrderedBatches batches_;
  std::int64_t saved_;  // examples at the last checkpoint; -1: there is none
  std::optional<Metrics> first_evaluation_, last_evaluation_;
  bool warned_ = false;
  Clock::time_point logged_ = Clock::now();
  Clock::time_point first_update_;  // of this process, which may go on with a run
  std::int64_t updates_here_ = 0;
};

}  // namespace

Outcome run_loop(Prepared& prepared, RunFolder& folder, const train::Listener& listener) {
  return Run(prepared, folder, listener).execute();
}

}  // namespace dpo::run
