#include "report/run_report.h"

#include <fmt/format.h>

#include "base/quantity.h"
#include "report/html.h"
#include "report/loaded_run.h"
#include "report/plan_table.h"

namespace dpo::report {
namespace {

Tone tone_of(Answer answer) {
  switch (answer) {
    case Answer::yes: return Tone::good;
    case Answer::no: return Tone::bad;
    case Answer::unclear: break;
  }
  return Tone::plain;
}

// Returns "loss=dpo, org/base, data hh: 3,200 examples in 100 updates; finished."
std::string subtitle_of(const LoadedRun& run) {
  std::string text;
  if (run.source.facts) {
    const CardRun& facts = *run.source.facts;
    text = fmt::format("loss={}, {}", facts.loss, facts.base);
    if (!facts.weights.empty()) text += fmt::format(" from the weights {}", facts.weights);
    for (std::size_t i = 0; i < facts.data.size(); ++i) text += (i == 0 ? ", data " : ", ") + facts.data[i];
    text += ": ";
  }
  return text + fmt::format("{} in {}; {}.", plural(run.last_counter("examples"), "example"),
                            plural(run.last_counter("updates"), "update"), status_of(run));
}

// Adds the key figures of the last evaluation.
void add_tiles(Page& page, const LoadedRun& run) {
  std::vector<Tile> tiles;
  if (!run.evaluations.empty()) {
    const Evaluation &first = run.evaluations.front(), &last = run.evaluations.back();
    if (last.accuracy) tiles.push_back({"reward accuracy", accuracy_text(last), "held out"});
    if (last.margin) tiles.push_back({"reward margin", fmt::format("{:+.3f}", *last.margin), "held out"});
    tiles.push_back(
        {"loss", fmt::format("{:.4f}", last.loss),
         first.examples < last.examples ? fmt::format("held out, from {:.4f}", first.loss) : "held out"});
  }
  tiles.push_back(
      {"examples", with_commas(run.last_counter("examples")), plural(run.last_counter("updates"), "update")});
  page.add_tiles(tiles);
}

void add_findings(Page& page, const LoadedRun& run) {
  page.add_heading("Findings");
  if (const std::vector<std::string> findings = findings_of(run); !findings.empty())
    add_list_of(page, findings);
  else
    page.add_text("Neither the plan nor the run has warnings.");
}

void add_curves(Page& page, const LoadedRun& run) {
  std::vector<Chart> first, more;
  const auto both = [&](const char* train, const char* eval) {
    return std::vector<Curve>{train_curve(run, "training", train), eval_curve(run, "held out", eval)};
  };
  const auto responses = [&](const std::string& group) {
    return std::vector<Curve>{eval_curve(run, "chosen", group + "_eval/chosen"),
                              eval_curve(run, "rejected", group + "_eval/rejected")};
  };
  add_chart(first, "loss", both("loss/train", "loss/eval"));
  add_chart(first, "reward accuracy", both("rewards_train/accuracies", "rewards_eval/accuracies"));
  add_chart(first, "reward margin", both("rewards_train/margins", "rewards_eval/margins"));
  add_chart(first, "rewards, held out", responses("rewards"));
  add_chart(more, "log-probability of responses, held out", responses("logps"));
  add_chart(more, "KL from the reference per token", both("kl_train/per_token", "kl_eval/per_token"));
  add_chart(more, "balance loss of the experts", {train_curve(run, "training", "aux_loss")});
  add_chart(more, "gradient norm", {train_curve(run, "training", "grad_norm")});
  add_chart(more, "learning rate", {train_curve(run, "training", "learning_rate")});
  add_chart(more, "examples per second", {train_curve(run, "training", "examples_per_second")});
  if (first.empty() && more.empty()) return;
  page.add_heading("Curves");
  page.add_text("Point at a chart, or move over it with the arrow keys, to read its values.");
  if (const std::size_t lines = run.log.series("loss/train").size(); lines > kTrainPoints)
    page.add_text(fmt::format("{} logged updates are shown as {} means.",
                              with_commas(static_cast<std::int64_t>(lines)), kTrainPoints));
  page.add_charts(first);
  if (more.empty()) return;
  page.begin_details("more curves");
  page.add_charts(more);
  page.end_details();
}

void add_evaluations(Page& page, const LoadedRun& run) {
  constexpr std::size_t kRows = 50;
  const std::vector<std::size_t> shown = some_of(run.evaluations.size(), kRows);
  if (shown.empty()) return;
  const auto cell = [](const std::optional<double>& value, int digits) {
    return Cell{value ? fmt::format("{:.{}f}", *value, digits) : ""};
  };
  Table table{{"examples", "loss", "reward accuracy", "reward margin"}, {}};
  for (const std::size_t i : shown) {
    const Evaluation& e = run.evaluations[i];
    table.rows.push_back({Cell{with_commas(whole_number(e.examples))}, cell(e.loss, 4),
                          Cell{accuracy_text(e)}, cell(e.margin, 3)});
  }
  const std::string all = plural(std::ssize(run.evaluations), "evaluation");
  page.begin_details(shown.size() < run.evaluations.size()
                         ? fmt::format("{} of {} as a table", shown.size(), all)
                         : all + " as a table");
  page.add_table(table);
  page.end_details();
}

void add_plan(Page& page, const LoadedRun& run) {
  const Table table = plan_table(run.plan, run.log, run.said.status == LogFacts::Status::finished);
  if (table.rows.empty()) return;
  page.add_heading("Plan and reality");
  page.add_table(table);
}

void add_commands(Page& page, const LoadedRun& run) {
  page.add_heading("Reproduce");
  page.add_text("From the run folder:");
  page.add_code("dpo train --config RUN/config.yaml local_run_dir=NEW");
  if (const auto processes = run.environment.find("processes");
      processes != run.environment.end() && processes->is_number_integer() && *processes > 1)
    page.add_text(fmt::format("The run had {} processes.", processes->get<std::int64_t>()));
  if (run.plan.contains("commits"))
    page.add_text("The hub may have newer commits than those above: NAME@COMMIT names one.");
  if (!run.source.facts) return;
  page.add_text(
      "Without the run folder; keys that are not named have their defaults, and paths of this machine are "
      "left out:");
  page.add_code(run.source.facts->command);
}

void add_configuration(Page& page, const LoadedRun& run) {
  page.add_heading("Configuration and environment");
  if (!run.source.facts) page.add_text(run.source.problem);
  if (run.source.facts) {
    Table settings{{"setting", "value"}, {}};
    for (const auto& [name, value] : run.source.facts->settings)
      settings.rows.push_back({Cell{name}, Cell{value}});
    page.add_table(settings);
  }
  constexpr std::size_t kNameCharacters = 200;
  Table environment{{"environment", "value"}, {}};
  const auto add = [&](const nlohmann::json& object) {
    if (!object.is_object()) return;
    for (const auto& [name, value] : object.items()) {
      if (!value.is_primitive()) continue;
      const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      environment.rows.push_back(
          {Cell{beginning_of(name, kNameCharacters)}, Cell{beginning_of(text, kNameCharacters)}});
    }
  };
  add(run.environment);
  if (const auto commits = run.plan.find("commits"); commits != run.plan.end()) add(*commits);
  if (!environment.rows.empty()) page.add_table(environment);
}

}  // namespace

std::string run_page(const RunSource& source) {
  FollowedRun followed(source.folder);
  followed.read_all();
  return run_page(source, followed);
}

std::string run_page(const RunSource& source, const FollowedRun& followed) {
  const LoadedRun run(source, followed);
  Page page(source.name);
  page.add_text(subtitle_of(run));
  const Learned learned = what_was_learned(run);
  page.add_lead("Did it learn? " + learned.sentence, tone_of(learned.answer));
  add_tiles(page, run);
  add_findings(page, run);
  add_curves(page, run);
  add_evaluations(page, run);
  add_distribution(page, run);
  add_examples(page, run);
  add_samples(page, run);
  add_plan(page, run);
  add_configuration(page, run);
  add_commands(page, run);
  return page.to_html();
}

}  // namespace dpo::report
