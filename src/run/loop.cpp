#include "run/loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "base/quantity.h"
#include "config/losses.h"
#include "ops/devices.h"
#include "run/best.h"
#include "run/distributed_folder.h"
#include "run/metrics.h"
#include "run/run_log.h"

namespace dpo::run {
namespace {

using Clock = std::chrono::steady_clock;

// Returns this rank's part of the checkpoints. A collective call, which checks that all ranks see the same
// folder.
RankPart part_of(const shard::Mesh& mesh, const std::filesystem::path& folder) {
  return {{mesh.all->rank(), mesh.all->size(), check_shared(folder, *mesh.all, mesh.device)},
          mesh.layout(),
          mesh.replica->rank() == 0};
}

struct SamplesStopped {};  // thrown when a signal stops sampling

class TrainingLoop {
 public:
  TrainingLoop(PreparedRun& run, RunFolder& folder, const train::Listener& listener)
      : run_(run),
        listener_(listener),
        part_(part_of(run.state.mesh, folder.path())),
        writer_(folder.path(), run.config.keep_last, part_),
        log_(folder, listener, run.config, std::ssize(run.training)),
        saved_(run.resumed.value_or(-1)),
        sampled_(run.run_state.evaluated) {}

  Outcome execute() {
    try {
      return run_to_end();
    } catch (const train::TrainingFailure& failure) {
      finish_saving_after(failure);
      throw;
    }
  }

 private:
  // All ranks fail together, and the checkpoint being written is good.
  void finish_saving_after(const train::TrainingFailure& failure) try {
    finish_saving();
  } catch (const train::TrainingFailure& saving) {
    throw train::TrainingFailure(fmt::format("{}\n{}", failure.what(), saving.what()));
  }

  Outcome run_to_end() {
    log_.after_loading(run_.train.counts());
    log_.replay_history();
    if (run_.resumed && !run_.config.debug) writer_.link(run_.run_state, was_best());
    log_.write_examples(run_.evaluation, run_.tokenizer);
    while (true) {
      if (is_evaluation_due() && !evaluate()) return stop();
      if (is_first_sampling_due() && !sample_first()) return stop();
      if (is_at_end()) break;
      train_on(next_batch());
      if (writer_.check()) log_.after_saving();  // reports a full disk now, not hours later
      if (asked_to_stop()) return stop();
      if (is_save_due() && !is_evaluation_due()) save();
    }
    save();
    finish_saving();
    log_.after_training(run_.run_state);
    return Outcome::finished;
  }

  Outcome stop() {
    save();
    finish_saving();
    return Outcome::stopped;
  }

  const shard::Mesh& mesh() const { return run_.state.mesh; }

  // With several ranks, the requests were summed before the optimizer's step, so that the host need not wait
  // for it.
  bool asked_to_stop() { return stop_requests_ ? stop_requests_->get().front() > 0 : stop_requested(); }

  bool is_at_end() const { return run_.run_state.updates == std::ssize(run_.training); }

  train::ExampleBatch next_batch() const {
    const auto update = static_cast<std::size_t>(run_.run_state.updates);
    return train::batch_of(run_.train, data::Split::Train, run_.training.at(update));
  }

  // The end of a run is evaluated too, unless eval_every is null, because LATEST points to it.
  bool is_evaluation_due() const {
    const std::int64_t examples = run_.run_state.examples;
    const std::optional<std::int64_t>& every = run_.config.eval_every;
    if (!every || examples == run_.run_state.evaluated) return false;
    if (examples == 0) return run_.config.do_first_eval;
    return is_at_end() || examples % *every == 0;
  }

  // The first samples come after the first update, not with the evaluation before it, so that the first
  // update is not delayed by generation.
  bool is_first_sampling_due() const {
    const config::RunConfig& config = run_.config;
    return run_.sampled.texts > 0 && config.eval_every && config.do_first_eval &&
           run_.run_state.updates == 1 && sampled_ != run_.run_state.examples;
  }

  bool is_save_due() const {
    const std::int64_t examples = run_.run_state.examples;
    const std::optional<std::int64_t>& every = run_.config.save_every;
    return examples > 0 && (is_at_end() || (every && examples % *every == 0));
  }

  // Evaluates, and saves afterwards if a checkpoint is due. Returns false if a signal stopped it; the resumed
  // run starts the evaluation again.
  bool evaluate() {
    std::vector<train::Record> records;
    for (std::size_t i = 0; i < run_.evaluation.size(); ++i) {
      if (train::any_rank_asked_to_stop(mesh())) return false;
      const std::vector<train::Record> more =
          train::evaluate(run_.state, run_.evaluation[i], starts_from_reference());
      records.insert(records.end(), more.begin(), more.end());
      listener_.progress("evaluating", static_cast<std::int64_t>(i + 1),
                         static_cast<std::int64_t>(run_.evaluation.size()), "batches");
    }
    require_finite(records);
    Metrics metrics = metrics_of(records, run_.state.loss, "eval");
    metrics.emplace_back("counters/eval_examples", static_cast<double>(records.size()));
    add_counters(metrics);
    // Samples are drawn before anything is logged, so that an evaluation is logged exactly once even if a
    // signal arrives.
    const bool is_sampling_due = run_.sampled.texts > 0 && run_.run_state.updates > 0;
    std::optional<std::vector<Sample>> samples;
    if (is_sampling_due && !(samples = sample())) return false;
    log_.after_evaluation(metrics, records, run_.run_state, run_.state.loss.beta);
    if (samples) write_samples(*samples);
    log_.write_report();
    run_.run_state.evaluated = run_.run_state.examples;
    if (is_save_due()) save(is_new_best(run_.run_state, metrics, run_.config));
    return true;
  }

  // Returns whether the policy is still equal to a live reference. The first update checks that they are
  // equal.
  bool starts_from_reference() const {
    return run_.run_state.updates == 0 && run_.plan.reference == plan::ReferenceMode::live &&
           !run_.config.model.reference_dtype;
  }

  // Throws if the evaluation is not finite, so that such a model is not saved.
  void require_finite(const std::vector<train::Record>& records) const {
    std::vector<std::uint32_t> culprits;
    for (const train::Record& record : records)
      if (!std::isfinite(record.loss) ||
          !std::ranges::all_of(record.policy, [](double score) { return std::isfinite(score); }))
        culprits.push_back(record.example);
    if (culprits.empty()) return;
    const std::string why =
        run_.run_state.updates == 0
            ? "No update was made yet: the weights or the reference already produce NaN or infinity"
            : fmt::format("The policy has diverged and was not saved{}. Try a lower lr", last_good());
    throw train::TrainingFailure(
        fmt::format("evaluation after {} ({}): loss or log-probability of {} of {} is NaN or "
                    "infinite (first: example {}). {}",
                    plural(run_.run_state.examples, "example"), updates_so_far(), culprits.size(),
                    plural(std::ssize(records), "example"), culprits.front(), why));
  }

  // Throws if a weight is not finite, which the last update may have caused. A sum with a non-finite term is
  // not finite.
  void require_finite_weights() const {
    bool finite = true;
    for (const model::BlockWeights& block : run_.state.policy.stored().blocks)
      finite = finite && std::isfinite(block.flat.sum(at::kFloat).item<float>());
    if (shard::max_over(*mesh().all, finite ? 0 : 1, mesh().device) == 0) return;
    throw train::TrainingFailure(fmt::format(
        "after {} ({}) the weights of the policy are NaN or infinite. It has diverged and was not "
        "saved{}. Try a lower lr",
        plural(run_.run_state.examples, "example"), updates_so_far(), last_good()));
  }

  std::string updates_so_far() const { return plural(run_.run_state.updates, "update"); }

  std::string last_good() const {
    if (saved_ < 0 || saved_ == run_.run_state.examples) return "";
    return fmt::format("; step-{} is the last good checkpoint", saved_);
  }

  void train_on(const train::ExampleBatch& batch) {
    log_.before_update(run_.run_state);
    const Clock::time_point start = Clock::now();
    const bool is_first = run_.run_state.updates == 0;
    const train::UpdateResult result =
        train::update(run_.state, batch, [&](const train::UpdateResult& computed) {
          if (is_first) check_first_update(computed, batch);
          if (mesh().all->size() > 1) stop_requests_.emplace(train::stop_requests(mesh()));
        });
    ++run_.run_state.updates;
    run_.run_state.examples += static_cast<std::int64_t>(batch.examples.size());
    run_.run_state.reward_sum = run_.state.rewards.sum;
    run_.run_state.rewards = run_.state.rewards.count;
    // A GPU may still be updating weights while this update is logged and the next batch is packed. The
    // remaining time then counts toward the next update. If something else waits for the GPU first, it counts
    // toward this one.
    if (is_evaluation_due() || is_save_due()) wait_for_gpu();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    Metrics metrics = metrics_of(result.records, run_.state.loss, "train");
    add_speed(metrics, static_cast<double>(batch.examples.size()), static_cast<double>(result.tokens),
              seconds);
    metrics.emplace_back("grad_norm", result.gradient_norm);
    metrics.emplace_back("learning_rate", result.learning_rate);
    if (run_.config.model.router_aux_loss_coef) metrics.emplace_back("aux_loss", result.aux_loss);
    if (mesh().data->size() > 1) metrics.emplace_back("slowest_rank", result.slowest_rank);
    add_counters(metrics);
    log_.after_update(metrics, run_.run_state, start);
  }

  // Cached scores may come from a run with other batch shapes, so they are compared with the matmul dtype's
  // tolerance. Scores of a live reference are compared with float32's.
  void check_first_update(const train::UpdateResult& result, const train::ExampleBatch& batch) const {
    if (!uses_reference(run_.state.loss) || run_.config.model.reference_dtype) return;
    const bool cached = run_.plan.reference == plan::ReferenceMode::cached;
    const at::ScalarType dtype = cached ? train::matmul_dtype(run_.config) : at::kFloat;
    if (run_.state.dropout == 0) return train::require_equal_models(result, dtype);
    train::UpdateResult without_dropout;
    without_dropout.records = train::evaluate(run_.state, batch);
    train::require_equal_models(without_dropout, dtype);
  }

  void save(bool is_best = false) {
    const std::int64_t examples = run_.run_state.examples;
    if (run_.config.debug) return;
    if (examples == saved_) {  // resumed from this checkpoint and evaluated only now
      if (is_best) writer_.link(run_.run_state, is_best);
      return;
    }
    require_finite_weights();
    saved_ = examples;
    log_.flush();
    finish_saving();  // only one snapshot fits into memory
    writer_.write(take_snapshot(run_.loaded, run_.state.policy.stored(), *run_.state.optimizer,
                                run_.state.policy.model().trained, run_.run_state, part_),
                  is_best);
    log_.after_snapshot(examples, is_best);
  }

  void finish_saving() {
    if (writer_.finish()) log_.after_saving();
  }

  // Returns false if a signal stopped it; the resumed run samples again.
  bool sample_first() {
    const std::optional<std::vector<Sample>> samples = sample();
    if (!samples) return false;
    write_samples(*samples);
    log_.write_report();
    return true;
  }

  void write_samples(const std::vector<Sample>& samples) {
    log_.after_samples(samples, run_.reference_samples, run_.run_state);
    sampled_ = run_.run_state.examples;
  }

  // Returns nullopt if a signal stopped it.
  std::optional<std::vector<Sample>> sample() {
    try {
      // The reference does not change, so it is sampled from only once.
      const train::ReferenceModel* const reference = run_.state.reference->model();
      if (reference && run_.reference_samples.empty())
        run_.reference_samples =
            samples_of(reference->local.model(), reference->local.store(), "sampling from the reference");
      return samples_of(run_.state.policy.model(), run_.state.policy.store(), "sampling");
    } catch (const SamplesStopped&) {
      return std::nullopt;
    }
  }

  std::vector<Sample> samples_of(const model::Model& model, model::Store& store,
                                 const std::string& what) const {
    const auto on_step = [&](std::int64_t done, std::int64_t all) {
      if (train::any_rank_asked_to_stop(mesh())) throw SamplesStopped();
      listener_.progress(what, done, all, "tokens at most");
    };
    return draw_samples(model, store, run_.evaluation, run_.tokenizer, run_.ends, run_.config, run_.sampled,
                        *mesh().all, on_step);
  }

  // Adds MFU only if the plan was made for this device, which excludes a CPU.
  void add_speed(Metrics& metrics, double examples, double tokens, double seconds) const {
    metrics.emplace_back("examples_per_second", examples / seconds);
    metrics.emplace_back("tokens_per_second", tokens / seconds);
    const bool on_gpu = !mesh().device.is_cpu();
    const plan::Timing& planned = run_.plan.timing;
    if (on_gpu)
      metrics.emplace_back("mfu",
                           planned.model_flops_utilization * tokens / seconds / planned.tokens_per_second);
    const double peak = static_cast<double>(peak_memory(on_gpu)) / kGib;
    metrics.emplace_back("peak_memory_gib", shard::max_over(*mesh().all, peak, mesh().device));
  }

  void add_counters(Metrics& metrics) const {
    metrics.emplace_back("counters/examples", static_cast<double>(run_.run_state.examples));
    metrics.emplace_back("counters/updates", static_cast<double>(run_.run_state.updates));
  }

  // Returns whether the checkpoint that the run was resumed from is the best. The process may have ended
  // before it pointed BEST at it.
  bool was_best() const {
    const RunState& run_state = run_.run_state;
    return run_.config.best_metric && run_state.evaluated == *run_.resumed &&
           run_state.best_examples == run_.resumed;
  }

  PreparedRun& run_;
  const train::Listener& listener_;
  const RankPart part_;
  CheckpointWriter writer_;
  RunLog log_;
  std::optional<shard::PendingSums> stop_requests_;  // as of the last update; of several ranks
  std::int64_t saved_;                               // examples at the last checkpoint, -1 if none
  std::int64_t sampled_;                             // examples at the last samples, -1 if none
};

}  // namespace

Outcome run_loop(PreparedRun& run, RunFolder& folder, const train::Listener& listener) {
  return TrainingLoop(run, folder, listener).execute();
}

}  // namespace dpo::run
