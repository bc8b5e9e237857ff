#include "run/diagnosis.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "report/accuracy.h"
#include "report/accuracy_gap.h"

namespace dpo::run {
namespace {

constexpr std::int64_t kClippedInARow = 50;  // updates; fewer may be just a bad start
constexpr double kUpdatesToLearn = 100;      // updates before results at chance level are reported
constexpr double kFallPerToken = 0.1;        // drop of the chosen responses' log-probability, nats
constexpr double kFallOfLoss = 0.02;         // relative to the previous held-out loss
constexpr double kRecent = 0.1;              // share of the updates compared with an evaluation
constexpr double kTruncatedShare = 0.5;
constexpr double kGrowth = 1.5;  // factor on the samples' length
constexpr double kEndedShare = 0.2;
constexpr std::size_t kEnoughSamples = 4;

// Returns whether a mean of n yes-or-no outcomes is within two standard deviations of one half.
bool is_chance(double accuracy, double n) { return std::abs(accuracy - 0.5) <= 1 / std::sqrt(n); }

double mean_of(std::span<const Sample> samples, double (*value)(const Sample&)) {
  double sum = 0;
  for (const Sample& sample : samples) sum += value(sample);
  return sum / static_cast<double>(samples.size());
}

}  // namespace

std::vector<RunWarning> Diagnosis::report(std::vector<RunWarning> noticed) {
  std::erase_if(noticed, [this](const RunWarning& warning) { return !reported_.insert(warning.id).second; });
  warnings_.insert(warnings_.end(), noticed.begin(), noticed.end());
  return noticed;
}

std::vector<RunWarning> Diagnosis::after_loading(std::span<const data::SourceCounts> counts) {
  std::vector<RunWarning> noticed;
  epoch_ = 0;
  for (const data::SourceCounts& source : counts) {
    epoch_ += static_cast<double>(source.examples);
    const auto share = [&source](std::int64_t count) {
      return static_cast<double>(count) / static_cast<double>(std::max<std::int64_t>(1, source.examples));
    };
    if (share(source.truncated_prompts) > kTruncatedShare ||
        share(source.truncated_responses) > kTruncatedShare)
      noticed.push_back(
          {"truncated",
           fmt::format("{}: {:.0f} % of prompts and {:.0f} % of examples' responses are truncated, so "
                       "the model never sees most of what it should learn. Try a larger max_length (and "
                       "max_prompt_length); 'dpo data' shows the lengths.",
                       source.name, 100 * share(source.truncated_prompts),
                       100 * share(source.truncated_responses))});
  }
  return report(std::move(noticed));
}

std::vector<RunWarning> Diagnosis::after_update(const Metrics& metrics) {
  updates_ = value_of(metrics, "counters/updates");
  const double accuracy = value_of(metrics, "rewards_train/accuracies"),
               examples = value_of(metrics, "counters/examples");
  if (!std::isnan(accuracy)) {
    accuracies_.add({examples, accuracy});
    margins_.add({examples, value_of(metrics, "rewards_train/margins")});
  }
  const double norm = value_of(metrics, "grad_norm");
  clipped_in_a_row_ = max_gradient_norm_ && norm > *max_gradient_norm_ ? clipped_in_a_row_ + 1 : 0;
  if (clipped_in_a_row_ < kClippedInARow) return {};
  return report(
      {{"clipped",
        fmt::format("the gradient was clipped in each of the last {} updates (norm {:.3g}, "
                    "max_grad_norm {:.3g}): the size of a step is set by the clipping, not by lr. Try "
                    "a larger max_grad_norm, or a larger batch_size if the norm varies a lot.",
                    clipped_in_a_row_, norm, *max_gradient_norm_)}});
}

// Training accuracy is measured before the update on its examples, so only from the second epoch on has the
// model seen these examples. While the held-out loss falls, training is still useful.
std::vector<RunWarning> Diagnosis::find_memorising(const Metrics& metrics) {
  const double examples = value_of(metrics, "counters/examples");
  const report::Evaluation now{examples, value_of(metrics, "loss/eval"),
                               value_of(metrics, "rewards_eval/accuracies"),
                               value_of(metrics, "rewards_eval/margins")};
  const std::optional<report::Evaluation> before = std::exchange(last_evaluation_, now);
  const bool falls =
      before && before->examples > 0 && now.loss < before->loss - kFallOfLoss * std::abs(before->loss);
  const bool has_repeated = examples * (1 - kRecent) >= epoch_;  // at the start of the compared window too
  if (falls || !has_repeated) return {};
  const double held_out = value_of(metrics, "counters/eval_examples");
  const auto gap = report::find_accuracy_gap(accuracies_, margins_, examples / updates_, now, held_out);
  if (!gap) return {};
  return {
      {"memorizes",
       fmt::format(
           "the run memorizes: the reward accuracy is {:.3f} in training (the last {:.0f} examples, margin "
           "{:+.3f}), but {:.3f} on {:.0f} held-out pairs (margin {:+.3f}), and the held-out loss no longer "
           "falls. Try fewer epochs, a lower lr, a higher loss.beta or more data; "
           "best_metric=loss/eval keeps the best checkpoint as BEST.",
           gap->training, gap->examples, gap->training_margin, gap->held_out, held_out,
           gap->held_out_margin)}};
}

std::vector<RunWarning> Diagnosis::after_evaluation(const Metrics& metrics) {
  if (!first_evaluation_) first_evaluation_ = metrics;
  // A resumed run may have logged only some of its updates.
  if (const double updates = value_of(metrics, "counters/updates"); !std::isnan(updates)) updates_ = updates;
  const auto now = [&](const char* name) { return value_of(metrics, name); };
  const auto change = [&](const char* name) { return now(name) - value_of(*first_evaluation_, name); };
  std::vector<RunWarning> noticed;
  const double fall = -change("logps_eval/chosen");
  if (fall > kFallPerToken * now("tokens_eval/chosen") && change("rewards_eval/margins") > 0)
    noticed.push_back(
        {"chosen_falls",
         fmt::format(
             "margins grow ({:+.3f} since the first evaluation), but the chosen responses become less "
             "likely too: {:.1f} nats less on average, {:.2f} a token. The policy moves away from both. "
             "Try a higher loss.beta, a lower lr, fewer epochs, or loss.alpha, which adds the "
             "chosen responses' likelihood (RPO).",
             change("rewards_eval/margins"), fall, fall / now("tokens_eval/chosen"))});
  const double accuracy = now("rewards_eval/accuracies"), margin = now("rewards_eval/margins"),
               pairs = now("counters/eval_examples");
  if (updates_ >= kUpdatesToLearn && is_chance(report::accuracy_of(accuracy, margin), pairs))
    noticed.push_back(
        {"chance",
         fmt::format(
             "after {:.0f} updates the accuracy on {:.0f} held-out pairs is {}, which is chance level. "
             "Are chosen and rejected the right way round ('dpo data --order 5')? If so, try a higher lr, "
             "and check that the model that the run starts from was fine-tuned on such prompts.",
             updates_, pairs, report::accuracy_text(accuracy, margin))});
  std::ranges::move(find_memorising(metrics), std::back_inserter(noticed));
  return report(std::move(noticed));
}

// Skips samples that a limit has cut, because their lengths and ends are not meaningful.
std::vector<RunWarning> Diagnosis::after_samples(std::span<const Sample> all) {
  std::vector<Sample> samples;
  std::ranges::remove_copy_if(all, std::back_inserter(samples), &Sample::cut);
  if (samples.size() < kEnoughSamples) return {};
  const SampleMeans now{mean_of(samples, [](const Sample& s) { return static_cast<double>(s.tokens); }),
                        mean_of(samples, [](const Sample& s) { return s.ended ? 1.0 : 0.0; })};
  if (!first_samples_) first_samples_ = now;
  std::vector<RunWarning> noticed;
  if (now.tokens > kGrowth * first_samples_->tokens)
    noticed.push_back(
        {"longer", fmt::format("sampled responses get longer: {:.0f} tokens on average, {:.0f} at "
                               "the first samples. If the chosen responses are the longer ones, "
                               "the model may be learning length. Try a loss that divides by length "
                               "(loss=sigmoid_norm, simpo) or a higher loss.beta.",
                               now.tokens, first_samples_->tokens)});
  if (updates_ >= kUpdatesToLearn && now.ended < kEndedShare)
    noticed.push_back(
        {"no_end",
         fmt::format("only {:.0f} % of the sampled responses end with the end-of-text token; the others "
                     "reach max_length. The model has not learned the end-of-text token: is it "
                     "cut off by max_length ('dpo data'), or was the SFT stage skipped or too "
                     "short?",
                     100 * now.ended)});
  return report(std::move(noticed));
}

}  // namespace dpo::run
