#include "report/evaluations.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "base/quantity.h"
#include "report/accuracy.h"
#include "report/accuracy_gap.h"

namespace dpo::report {
namespace {

std::string count_text(double count) { return with_commas(whole_number(count)); }

std::string held_out(std::int64_t count) {
  return count > 0 ? plural(count, "held-out example") : "held-out examples";
}

// Returns "the loss fell from 0.6931 to 0.5012".
std::string loss_change(const Evaluation& first, const Evaluation& last) {
  const std::string from = fmt::format("{:.4f}", first.loss), to = fmt::format("{:.4f}", last.loss);
  if (from == to) return fmt::format("the loss stayed at {}", to);
  return fmt::format("the loss {} from {} to {}", last.loss < first.loss ? "fell" : "rose", from, to);
}

// Answers yes for a positive `gain`, and unclear if it is within `noise`.
Answer answer_of(double gain, double noise) {
  return gain > noise ? Answer::yes : gain < -noise ? Answer::no : Answer::unclear;
}

const char* opening_of(Answer answer, const char* no) {
  return answer == Answer::yes ? "Yes" : answer == Answer::no ? no : "Not measurably";
}

Learned by_training_loss(const MetricLog& log) {
  const std::vector<Point> tenths = log.series("loss/train").means(10);
  std::string text = "Not known: nothing was evaluated.";
  if (tenths.size() == 10)
    text += fmt::format(" In training {} (means of the first and the last tenth).",
                        loss_change({.loss = tenths.front().y}, {.loss = tenths.back().y}));
  return {Answer::unclear, text};
}

Learned by_loss(const MetricLog& log, const Evaluation& first, const Evaluation& last) {
  if (first.examples == last.examples)
    return {
        Answer::unclear,
        fmt::format("Not known yet: there is one evaluation, after {} examples; the loss on {} is {:.4f}.",
                    count_text(last.examples), held_out(evaluated_examples(log)), last.loss)};
  const Answer answer = answer_of(first.loss - last.loss, 0.01 * std::abs(first.loss));
  return {answer, fmt::format("{}: on {}, {} in {} examples of training.", opening_of(answer, "No"),
                              held_out(evaluated_examples(log)), loss_change(first, last),
                              count_text(last.examples - first.examples))};
}

// The accuracy that a run's accuracy is compared with.
struct Baseline {
  double accuracy = 0.5;
  std::string name = "chance is 0.500";
};

// With a reference, rewards measure how the policy differs from it, so the accuracy without training is
// chance. Without one, they are the policy's own log-probabilities, whose accuracy before training can be
// anything.
std::optional<Baseline> find_baseline(const MetricLog& log, const Evaluation& first, const Evaluation& last) {
  const bool has_reference = !log.series("kl_eval/per_token").empty() || are_ties(first);
  if (first.examples == 0 && first.accuracy && !are_ties(first))
    return Baseline{*first.accuracy, fmt::format("before training {:.3f}", *first.accuracy)};
  if (has_reference) return Baseline{};
  if (first.examples == last.examples || !first.accuracy) return std::nullopt;
  return Baseline{*first.accuracy,
                  fmt::format("after {} examples {:.3f}", count_text(first.examples), *first.accuracy)};
}

// Returns "; in training the accuracy on the last 320 examples is 0.984 and the mean margin +1.500" if this
// accuracy is far above the held-out one.
std::string training_text(const MetricLog& log, const Evaluation& last, std::int64_t compared) {
  const Series &examples = log.series("counters/examples"), &updates = log.series("counters/updates");
  if (updates.empty()) return "";
  const auto gap =
      find_accuracy_gap(log.series("rewards_train/accuracies"), log.series("rewards_train/margins"),
                        examples.last().y / updates.last().y, last, static_cast<double>(compared));
  if (!gap) return "";
  return fmt::format("; in training the accuracy on the last {} is {:.3f} and the mean margin {:+.3f}",
                     plural(whole_number(gap->examples), "example"), gap->training, gap->training_margin);
}

// Accuracies are shares of yes-or-no outcomes. A difference counts if it exceeds two standard deviations.
Learned by_accuracy(const MetricLog& log, const Evaluation& first, const Evaluation& last,
                    std::int64_t compared) {
  if (last.examples == 0)
    return {Answer::unclear, "Not known yet: there was no evaluation since training began."};
  const std::optional<Baseline> before = find_baseline(log, first, last);
  const double margin = last.margin.value_or(NAN);
  if (!before)
    return {
        Answer::unclear,
        fmt::format("Not known yet: the reward accuracy on {} is {} after {} examples, but there is "
                    "no earlier evaluation, and without a reference model 0.5 is not a meaningful baseline.",
                    held_out(compared), accuracy_text(*last.accuracy, margin), count_text(last.examples))};
  const double noise = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, compared)));
  const Answer answer = answer_of(accuracy_of(*last.accuracy, margin) - before->accuracy, noise);
  std::string text =
      fmt::format("{}: after {} examples the reward accuracy on {} is {} ({}, give or take {:.3f})",
                  opening_of(answer, "No, the opposite"), count_text(last.examples), held_out(compared),
                  accuracy_text(*last.accuracy, margin), before->name, noise);
  if (last.margin) text += fmt::format(", the mean margin {:+.3f}", *last.margin);
  if (first.examples != last.examples) text += ", and " + loss_change(first, last);
  return {answer, text + training_text(log, last, compared) + "."};
}

}  // namespace

std::vector<Evaluation> evaluations_of(const MetricLog& log, double most) {
  std::map<double, Evaluation> by_examples;
  for (const Evaluation& evaluation : log.evaluations())
    if (evaluation.examples <= most) by_examples[evaluation.examples] = evaluation;
  std::vector<Evaluation> evaluations;
  for (const auto& [examples, evaluation] : by_examples) evaluations.push_back(evaluation);
  return evaluations;
}

std::int64_t evaluated_examples(const MetricLog& log) {
  const Series& counted = log.series("counters/eval_examples");
  return counted.empty() ? 0 : whole_number(counted.last().y);
}

bool are_ties(const Evaluation& evaluation) {
  return evaluation.accuracy && evaluation.margin && are_ties(*evaluation.accuracy, *evaluation.margin);
}

std::string accuracy_text(const Evaluation& evaluation) {
  if (!evaluation.accuracy) return "";
  return accuracy_text(*evaluation.accuracy, evaluation.margin.value_or(NAN), evaluation.held_out);
}

Learned what_was_learned(const MetricLog& log, std::int64_t compared) {
  const std::vector<Evaluation> evaluations = evaluations_of(log);
  if (evaluations.empty()) return by_training_loss(log);
  const Evaluation &first = evaluations.front(), &last = evaluations.back();
  if (compared == 0) compared = evaluated_examples(log);
  return last.accuracy ? by_accuracy(log, first, last, compared) : by_loss(log, first, last);
}

}  // namespace dpo::report
