#include "report/loaded_run.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/quantity.h"
#include "report/html.h"

namespace dpo::report {
namespace {

// Adds the warnings and errors of plan.json, except the advice on which model to start from, because the run
// has started.
void add_rules(const nlohmann::json& plan, std::vector<std::string>& findings) {
  const auto rules = plan.find("rules");
  if (rules == plan.end() || !rules->is_array()) return;
  for (const nlohmann::json& rule : *rules) {
    if (!rule.is_object()) continue;
    const auto text = [&](const char* name) {
      const auto found = rule.find(name);
      return found != rule.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    if (text("id") == "reference") continue;
    if (const std::string verdict = text("verdict"); verdict == "warning" || verdict == "error")
      findings.push_back(fmt::format("plan: {}: {}", text("id"), text("message")));
  }
}

// Adds a finding if the run was better before its end. Differences up to 2 % are noise.
void add_better_before(const std::vector<Evaluation>& evaluations, std::vector<std::string>& findings) {
  if (evaluations.empty()) return;
  const Evaluation& last = evaluations.back();
  const Evaluation& best = *std::ranges::min_element(evaluations, {}, &Evaluation::loss);
  if (last.loss - best.loss <= 0.02 * std::abs(best.loss)) return;
  if (best.examples == 0) {
    findings.push_back(
        fmt::format("the held-out loss never fell below that before training: {:.4f}; it is now {:.4f}.",
                    best.loss, last.loss));
    return;
  }
  findings.push_back(
      fmt::format("the held-out loss was lowest after {} examples: {:.4f}, and is now {:.4f}. The run may be "
                  "longer than useful; best_metric=loss/eval keeps the best checkpoint.",
                  with_commas(whole_number(best.examples)), best.loss, last.loss));
}

bool is_evaluated(const std::vector<Evaluation>& evaluations, std::int64_t step) {
  return std::ranges::binary_search(evaluations, static_cast<double>(step), {}, &Evaluation::examples);
}

}  // namespace

LoadedRun::LoadedRun(const RunSource& run, const FollowedRun& followed)
    : source(run),
      log(followed.metrics()),
      evaluations(evaluations_of(log)),
      said(followed.log()),
      plan(read_object(run.folder / "plan.json")),
      environment(read_object(run.folder / "environment.json")) {
  require_readable(run.folder / "metrics.jsonl", "metrics of a run");
}

std::int64_t LoadedRun::last_counter(const std::string& name) const {
  const Series& counted = log.series("counters/" + name);
  return counted.empty() ? 0 : whole_number(counted.last().y);
}

std::vector<std::int64_t> LoadedRun::evaluated_steps() const {
  std::vector<std::int64_t> steps = steps_in(source.folder / "eval");
  std::erase_if(steps, [&](std::int64_t step) { return !is_evaluated(evaluations, step); });
  return steps;
}

std::vector<std::int64_t> LoadedRun::sampled_steps() const {
  std::vector<std::int64_t> steps = steps_in(source.folder / "samples");
  if (steps.empty()) return steps;
  std::erase_if(steps, [&, first = steps.front()](std::int64_t step) {
    return step != first && !is_evaluated(evaluations, step);
  });
  return steps;
}

std::string status_of(const LoadedRun& run) {
  using Status = LogFacts::Status;
  switch (run.said.status) {
    case Status::finished: return "finished";
    case Status::stopped: return "stopped by a signal";
    case Status::failed: return "failed: " + run.said.reason.substr(run.said.reason.find(' ') + 1);
    case Status::unknown: break;
  }
  return "running, or killed";
}

std::vector<std::string> findings_of(const LoadedRun& run) {
  std::vector<std::string> findings;
  add_better_before(run.evaluations, findings);
  add_rules(run.plan, findings);
  findings.insert(findings.end(), run.said.warnings.begin(), run.said.warnings.end());
  return findings;
}

void add_list_of(Page& page, const std::vector<std::string>& findings) {
  std::vector<std::string> shown;
  for (const std::string& finding : findings)
    if (shown.size() < kFindings) shown.push_back(beginning_of(finding, kTextCharacters));
  page.add_list(shown);
  if (const std::int64_t more = std::ssize(findings) - std::ssize(shown); more > 0)
    page.add_text(fmt::format("Not shown: {}.", plural(more, "more finding")));
}

Learned what_was_learned(const LoadedRun& run) {
  const std::vector<std::int64_t> steps = run.evaluated_steps();
  if (steps.empty()) return what_was_learned(run.log);
  const auto last = read_evaluation(step_file(run.source.folder / "eval", steps.back()));
  return what_was_learned(
      run.log, std::ranges::count_if(last, [](const EvaluatedExample& e) { return e.rewards.size() > 1; }));
}

Curve train_curve(const LoadedRun& run, const std::string& name, const std::string& metric) {
  return {name, run.log.series(metric).means(kTrainPoints)};
}

Curve eval_curve(const LoadedRun& run, const std::string& name, const std::string& metric) {
  return {name, run.log.series(metric).some(kEvalPoints), Mark::dots};
}

void add_chart(std::vector<Chart>& charts, const std::string& title, std::vector<Curve> curves) {
  // Curves without points stay, so that a name has the same colour in every chart.
  if (std::ranges::any_of(curves, [](const Curve& curve) { return !curve.points.empty(); }))
    charts.push_back({title, "examples", std::move(curves)});
}

}  // namespace dpo::report
