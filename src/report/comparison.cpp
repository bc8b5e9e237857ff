#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/quantity.h"
#include "report/held_out.h"
#include "report/html.h"
#include "report/loaded_run.h"

namespace dpo::report {
namespace {

using Runs = std::vector<LoadedRun>;

std::string loss_of(const LoadedRun& run) { return run.source.facts ? run.source.facts->loss : ""; }

HeldOutComparison held_out_of(const Runs& runs) {
  std::vector<HeldOut> sets;
  for (const LoadedRun& run : runs)
    sets.push_back({run.last_counter("eval_examples"), held_out_digest(run.plan)});
  return compare_held_out(sets);
}

Table results_of(const Runs& runs, const HeldOutComparison& held_out) {
  Table table{{"run", "loss function", "examples", "held-out examples", "held-out loss", "reward accuracy",
               "reward margin", "did it learn?", "status"},
              {}};
  const auto text = [](double value) { return fmt::format("{:.4g}", value); };
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const LoadedRun& run = runs[i];
    const Evaluation* const last = run.evaluations.empty() ? nullptr : &run.evaluations.back();
    table.rows.push_back(
        {Cell{run.source.name}, Cell{loss_of(run)}, Cell{with_commas(run.last_counter("examples"))},
         Cell{with_commas(run.last_counter("eval_examples")), Tone::plain, held_out.notes[i]},
         Cell{last ? text(last->loss) : ""}, Cell{last ? accuracy_text(*last) : ""},
         Cell{last && last->margin ? text(*last->margin) : ""}, Cell{what_was_learned(run).in_short()},
         Cell{status_of(run)}});
  }
  return table;
}

void add_curves_of_all(Page& page, const Runs& runs, const HeldOutComparison& held_out) {
  std::vector<Chart> charts;
  const std::string of_held_out =
      ", held out" + (held_out.differ() ? fmt::format(" ({})", held_out.text) : "");
  const auto add = [&](const std::string& title, const std::string& metric,
                       Curve (*curve)(const LoadedRun&, const std::string&, const std::string&)) {
    std::vector<Curve> curves;
    for (const LoadedRun& run : runs) curves.push_back(curve(run, run.source.name, metric));
    add_chart(charts, title, std::move(curves));
  };
  add("loss" + of_held_out, "loss/eval", eval_curve);
  add("reward accuracy" + of_held_out, "rewards_eval/accuracies", eval_curve);
  add("reward margin" + of_held_out, "rewards_eval/margins", eval_curve);
  add("KL from the reference per token" + of_held_out, "kl_eval/per_token", eval_curve);
  add("loss, training", "loss/train", train_curve);
  add("gradient norm, training", "grad_norm", train_curve);
  page.add_heading("Curves");
  page.add_charts(charts);
}

// Returns a row for each setting that differs between the runs whose settings are known.
Table differences_of(const Runs& all) {
  std::vector<const LoadedRun*> runs;
  for (const LoadedRun& run : all)
    if (run.source.facts) runs.push_back(&run);
  Table table{{"setting"}, {}};
  std::map<std::string, std::vector<std::string>> settings;  // one value per run
  for (std::size_t i = 0; i < runs.size(); ++i) {
    table.header.push_back(runs[i]->source.name);
    const CardRun& facts = *runs[i]->source.facts;
    const auto set = [&](const std::string& name, const std::string& value) {
      settings[name].resize(runs.size());
      settings[name][i] = value;
    };
    for (const auto& [name, value] : facts.settings) set(name, value);
    set("model", facts.base);
    set("weights", facts.weights);
    for (const std::string& name : facts.data) set("data " + name, "used");
  }
  for (const auto& [name, values] : settings) {
    if (std::ranges::adjacent_find(values, std::not_equal_to<>()) == values.end()) continue;
    table.rows.push_back({Cell{name}});
    for (const std::string& value : values) table.rows.back().push_back(Cell{value});
  }
  return table;
}

// Returns the last samples of a run, by prompt.
std::map<std::string, SampleLine> last_samples(const LoadedRun& run) {
  constexpr std::size_t kRead = 100;
  const std::filesystem::path folder = run.source.folder / "samples";
  const std::vector<std::int64_t> steps = run.sampled_steps();
  std::map<std::string, SampleLine> samples;
  if (steps.empty()) return samples;
  for (SampleLine& line : read_samples(step_file(folder, steps.back()), kRead)) {
    const std::string prompt = line.prompt;
    samples.emplace(prompt, std::move(line));
  }
  return samples;
}

void add_samples_of_all(Page& page, const Runs& runs) {
  constexpr std::size_t kShown = 8;
  std::vector<std::map<std::string, SampleLine>> samples;
  for (const LoadedRun& run : runs) samples.push_back(last_samples(run));
  std::size_t shown = 0;
  for (const auto& sample : samples.front()) {
    const std::string& prompt = sample.first;
    const bool in_all =
        std::ranges::all_of(samples, [&](const auto& of_run) { return of_run.contains(prompt); });
    if (!in_all || shown == kShown) continue;
    if (shown++ == 0) {
      page.add_heading("Samples");
      page.add_text("The last samples for prompts that all runs have.");
    }
    const TurnStyle* const style = turn_style_of(prompt);
    const std::vector<Turn> turns = turns_of(prompt, style);
    page.begin_details(fmt::format("prompt {}", shown),
                       ending_on_a_line(turns.back().text, kSummaryCharacters),
                       /*open=*/shown == 1);
    std::vector<Quote> answers;
    for (std::size_t i = 0; i < runs.size(); ++i)
      answers.push_back({runs[i].source.name,
                         beginning_of(turns_of(samples[i].at(prompt).policy, style), kTextCharacters)});
    page.add_quotes(std::vector<Quote>{{"prompt", end_of(turns, kTextCharacters)}});
    page.add_quotes(answers);
    page.end_details();
  }
}

void add_findings_of_all(Page& page, const Runs& runs) {
  page.add_heading("Findings");
  for (const LoadedRun& run : runs) {
    const std::vector<std::string> findings = findings_of(run);
    page.begin_details(fmt::format("{}: {}", run.source.name,
                                   findings.empty() ? "none" : plural(std::ssize(findings), "finding")));
    page.add_text(what_was_learned(run).sentence);
    if (!findings.empty()) add_list_of(page, findings);
    page.end_details();
  }
}

}  // namespace

std::string comparison_page(std::span<const RunSource> sources) {
  std::deque<FollowedRun> followed;  // a deque keeps its elements in place, and LoadedRun refers to them
  Runs runs;
  std::set<std::string> losses;
  for (const RunSource& source : sources) {
    followed.emplace_back(source.folder).read_all();
    runs.emplace_back(source, followed.back());
    if (source.facts) losses.insert(source.facts->loss);
  }
  Page page(fmt::format("{} compared", plural(std::ssize(runs), "run")));
  const HeldOutComparison held_out = held_out_of(runs);
  if (!held_out.text.empty())
    page.add_lead(fmt::format("Held-out results: {}.", held_out.text),
                  held_out.differ() ? Tone::bad : Tone::plain);
  page.add_heading("Results");
  page.add_table(results_of(runs, held_out));
  if (losses.size() > 1)
    page.add_text(fmt::format("The runs have different loss functions, whose values cannot be compared{}.",
                              held_out.text.empty() ? "; accuracies can" : ""));
  add_curves_of_all(page, runs, held_out);
  page.add_heading("Settings that differ");
  if (const Table differences = differences_of(runs); !differences.rows.empty())
    page.add_table(differences);
  else
    page.add_text("No known setting differs.");
  for (const LoadedRun& run : runs)
    if (!run.source.facts) page.add_text(fmt::format("{}: {}", run.source.name, run.source.problem));
  add_samples_of_all(page, runs);
  add_findings_of_all(page, runs);
  return page.to_html();
}

}  // namespace dpo::report
