#include "report/evaluations.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "base/quantity.h"

namespace dpo::report {
namespace {

std::string count_text(double count) { return with_commas(whole_number(count)); }

std::string held_out(const MetricLog& log, const std::string& noun) {
  const std::int64_t count = evaluated_examples(log);
  return count > 0 ? plural(count, "held-out " + noun) : fmt::format("held-out {}s", noun);
}

// "the loss fell from 0.6931 to 0.5012"
std::string loss_change(const Evaluation& first, const Evaluation& last) {
  const std::string from = fmt::format("{:.4f}", first.loss), to = fmt::format("{:.4f}", last.loss);
  if (from == to) return fmt::format("the loss is still {}", to);
  return fmt::format("the loss {} from {} to {}", last.loss < first.loss ? "fell" : "rose", from, to);
}

Learned by_training_loss(const MetricLog& log) {
  const std::vector<Point> tenths = means_of(log.points("loss/train"), 10);
  if (tenths.size() < 10) return {Answer::unclear, "Not known yet: nothing was evaluated."};
  return {Answer::unclear,
          fmt::format(
              "Not known: the run does not evaluate. In training the loss {} from {:.4f} (mean of the first "
              "tenth) to {:.4f} (last tenth).",
              tenths.back().y < tenths.front().y ? "fell" : "rose", tenths.front().y, tenths.back().y)};
}

Learned by_loss(const MetricLog& log, const Evaluation& first, const Evaluation& last) {
  if (first.examples == last.examples)
    return {
        Answer::unclear,
        fmt::format("Not known yet: there is one evaluation, after {} examples; the loss on {} is {:.4f}.",
                    count_text(last.examples), held_out(log, "example"), last.loss)};
  const Answer answer = last.loss < first.loss ? Answer::yes : Answer::no;
  return {answer, fmt::format("{}: on {}, {} in {} examples of training.",
                              answer == Answer::yes ? "Yes" : "No", held_out(log, "example"),
                              loss_change(first, last), count_text(last.examples - first.examples))};
}

// Accuracies are shares of yes-or-no outcomes: two standard deviations count as a difference.
Learned by_accuracy(const MetricLog& log, const Evaluation& first, const Evaluation& last) {
  if (last.examples == 0)
    return {Answer::unclear, "Not known yet: there was no evaluation since training began."};
  const bool has_before = first.examples == 0 && first.accuracy && !all_rewards_are_0(first);
  const double before = has_before ? *first.accuracy : 0.5, now = *last.accuracy;
  const auto pairs = static_cast<double>(std::max<std::int64_t>(1, evaluated_examples(log)));
  const double noise = 1 / std::sqrt(pairs);
  const Answer answer = now > before + noise   ? Answer::yes
                        : now < before - noise ? Answer::no
                                               : Answer::unclear;
  const char* const said = answer == Answer::yes  ? "Yes"
                           : answer == Answer::no ? "No, the opposite"
                                                  : "Not measurably";
  std::string text =
      fmt::format("{}: after {} examples the reward accuracy on {} is {:.3f} ({}, give or take {:.3f})", said,
                  count_text(last.examples), held_out(log, "pair"), now,
                  has_before ? fmt::format("before training {:.3f}", before) : "chance is 0.500", noise);
  if (last.margin) text += fmt::format(", the mean margin {:+.3f}", *last.margin);
  if (first.examples != last.examples) text += ", and " + loss_change(first, last);
  return {answer, text + "."};
}

}  // namespace

std::vector<Evaluation> evaluations_of(const MetricLog& log, double most) {
  std::map<double, Evaluation> by_examples;
  for (const Point& point : log.points("loss/eval"))
    if (point.x <= most) by_examples[point.x] = {point.x, point.y};
  const auto add = [&](const char* name, std::optional<double> Evaluation::*value) {
    for (const Point& point : log.points(name))
      if (const auto found = by_examples.find(point.x); found != by_examples.end())
        found->second.*value = point.y;
  };
  add("rewards_eval/accuracies", &Evaluation::accuracy);
  add("rewards_eval/margins", &Evaluation::margin);
  std::vector<Evaluation> evaluations;
  for (const auto& [x, evaluation] : by_examples) evaluations.push_back(evaluation);
  return evaluations;
}

std::int64_t evaluated_examples(const MetricLog& log) {
  const std::vector<Point>& counted = log.points("counters/eval_examples");
  return counted.empty() ? 0 : whole_number(counted.back().y);
}

bool all_rewards_are_0(const Evaluation& evaluation) {
  return evaluation.examples == 0 && evaluation.accuracy == 0 && evaluation.margin == 0;
}

Learned what_was_learned(const MetricLog& log) {
  const std::vector<Evaluation> evaluations = evaluations_of(log);
  if (evaluations.empty()) return by_training_loss(log);
  const Evaluation &first = evaluations.front(), &last = evaluations.back();
  return last.accuracy ? by_accuracy(log, first, last) : by_loss(log, first, last);
}

}  // namespace dpo::report
