#include "train/run.h"

#include <chrono>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/stop.h"
#include "model/generate.h"

namespace dpo::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

ExampleBatch batch_of(const data::Examples& examples, std::vector<std::uint32_t> numbers) {
  ExampleBatch batch{std::move(numbers), {}};
  for (const std::uint32_t number : batch.numbers) batch.examples.push_back(examples.at(number));
  return batch;
}

class Run {
 public:
  Run(Prepared& prepared, RunFolder& folder, const Listener& listener)
      : p_(prepared),
        folder_(folder),
        listener_(listener),
        writer_(folder.path()),
        begun_(prepared.progress) {
    data::ExampleOrder order = data::evaluation_order(p_.test.list(), p_.config);
    while (auto numbers = order.next()) evaluation_.push_back(batch_of(p_.test, std::move(*numbers)));
  }

  Outcome execute() {
    data::ExampleOrder order = data::training_order(p_.train.list(), p_.config);
    for (std::int64_t i = 0; i < p_.progress.updates; ++i) order.next();  // what was trained on before
    while (true) {
      if (const std::int64_t n = p_.progress.examples; is_evaluation_due(n)) evaluate_at(n);
      auto numbers = order.next();
      if (!numbers) break;
      train_on(batch_of(p_.train, std::move(*numbers)));
      if (!stop_requested()) continue;
      save();
      writer_.finish();
      return Outcome::stopped;
    }
    save();
    writer_.finish();
    return Outcome::finished;
  }

 private:
  bool is_evaluation_due(std::int64_t examples) const {
    if (examples % p_.config.eval_every != 0) return false;
    if (examples == 0) return p_.config.do_first_eval;
    return examples != begun_.examples;  // a resumed run has that evaluation already
  }

  void evaluate_at(std::int64_t examples) {
    std::vector<Record> records;
    for (std::size_t i = 0; i < evaluation_.size() && !stop_requested(); ++i) {
      const std::vector<Record> more = evaluate(p_.trainee, evaluation_[i]);
      records.insert(records.end(), more.begin(), more.end());
      listener_.progress("evaluating", static_cast<std::int64_t>(i + 1),
                         static_cast<std::int64_t>(evaluation_.size()));
    }
    if (stop_requested()) return;
    Metrics metrics = metrics_of(records, p_.trainee.loss, "eval");
    listener_.say(line_of("evaluation", metrics, "eval"));
    add_counters(metrics);
    folder_.add_metrics(metrics);
    folder_.write_records(examples, records, p_.trainee.loss.beta);
    if (p_.config.sample_during_eval) write_samples(examples);
    if (examples > 0) save();
  }

  void train_on(const ExampleBatch& batch) {
    const Clock::time_point start = Clock::now();
    const UpdateResult result = update(p_.trainee, batch);
    if (p_.progress.updates == 0) check_first_update(result);
    ++p_.progress.updates;
    p_.progress.examples += static_cast<std::int64_t>(batch.examples.size());
    p_.progress.reward_sum = p_.trainee.rewards.sum;
    p_.progress.rewards = p_.trainee.rewards.count;
    const double seconds = seconds_since(start);
    Metrics metrics = metrics_of(result.records, p_.trainee.loss, "train");
    metrics.emplace_back("examples_per_second", static_cast<double>(batch.examples.size()) / seconds);
    metrics.emplace_back("tokens_per_second", static_cast<double>(result.tokens) / seconds);
    metrics.emplace_back("grad_norm", result.gradient_norm);
    metrics.emplace_back("learning_rate", result.learning_rate);
    if (seconds_since(logged_) < p_.config.minimum_log_interval_secs && p_.progress.updates > 1) return;
    logged_ = Clock::now();
    listener_.say(line_of(fmt::format("update {}", p_.progress.updates), metrics, "train"));
    add_counters(metrics);
    folder_.add_metrics(metrics);
  }

  // Before the first update policy and reference are the same model, computed by the same kernels.
  void check_first_update(const UpdateResult& result) const {
    if (!loss::uses_reference(p_.trainee.loss) || p_.config.model.reference_dtype) return;
    for (const Record& record : result.records)
      for (std::size_t i = 0; i < record.policy.size(); ++i)
        if (std::abs(record.policy[i] - record.reference[i]) >
            1e-5 * std::max(1.0, std::abs(record.policy[i])))
          throw TrainingFailure(fmt::format(
              "policy and reference differ before the first update: example {} has log-probability {} under "
              "the one "
              "and {} under the other. They should be the same model; is model.archive another one?",
              record.example, record.policy[i], record.reference[i]));
  }

  void save() {
    if (p_.config.debug || p_.progress.examples == saved_) return;
    saved_ = p_.progress.examples;
    writer_.write(
        take_snapshot(p_.described, p_.trainee.policy.stored(), *p_.trainee.optimizer, p_.progress));
    listener_.say(fmt::format("saving step-{}", p_.progress.examples));
  }

  void write_samples(std::int64_t examples) {
    std::vector<model::Prompt> prompts;
    for (const ExampleBatch& batch : evaluation_)
      for (std::size_t i = 0; i < batch.examples.size(); ++i)
        if (static_cast<std::int64_t>(prompts.size()) < p_.config.n_eval_model_samples &&
            !batch.examples[i].prompt.empty())
          prompts.push_back({batch.examples[i].prompt, prompts.size()});
    model::GenerateOptions options;
    options.max_new_tokens = p_.config.max_length;
    options.eos = {data::end_of_text(p_.tokenizer)};
    options.seed = static_cast<std::uint64_t>(p_.config.seed);
    std::vector<std::string> lines;
    for (const model::Prompt& prompt : prompts) {  // the prompt counts inside max_length, as in the original
      options.max_new_tokens =
          std::max<std::int64_t>(1, p_.config.max_length - static_cast<std::int64_t>(prompt.tokens.size()));
      const auto made =
          model::generate(p_.trainee.policy.model(), p_.trainee.policy.computed(), {&prompt, 1}, options);
      lines.push_back(
          nlohmann::ordered_json{{"prompt", p_.tokenizer.decode(prompt.tokens)},
                                 {"policy", p_.tokenizer.decode(made[0].tokens, /*skip_special=*/true)}}
              .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
      if (stop_requested()) return;
    }
    folder_.write_samples(examples, lines);
  }

  void add_counters(Metrics& metrics) const {
    metrics.emplace_back("counters/examples", static_cast<double>(p_.progress.examples));
    metrics.emplace_back("counters/updates", static_cast<double>(p_.progress.updates));
  }

  std::string line_of(const std::string& what, const Metrics& metrics, const std::string& stage) const {
    std::string line = fmt::format("{:<12} {:>8} examples  loss {:.4f}", what, p_.progress.examples,
                                   value_of(metrics, "loss/" + stage));
    const double accuracy = value_of(metrics, "rewards_" + stage + "/accuracies");
    if (!std::isnan(accuracy))
      line += fmt::format("  accuracy {:.3f}  margin {:+.3f}", accuracy,
                          value_of(metrics, "rewards_" + stage + "/margins"));
    if (stage == "train")
      line += fmt::format("  norm {:.3g}  lr {:.2g}  {:.1f} examples/s", value_of(metrics, "grad_norm"),
                          value_of(metrics, "learning_rate"), value_of(metrics, "examples_per_second"));
    return line;
  }

  Prepared& p_;
  RunFolder& folder_;
  const Listener& listener_;
  CheckpointWriter writer_;
  const Progress begun_;
  std::vector<ExampleBatch> evaluation_;
  std::int64_t saved_ = 0;
  Clock::time_point logged_ = Clock::now();
};

}  // namespace

Outcome run(Prepared& prepared, RunFolder& folder, const Listener& listener) {
  return Run(prepared, folder, listener).execute();
}

}  // namespace dpo::train
