#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/quantity.h"
#include "report/changes.h"
#include "report/html.h"
#include "report/loaded_run.h"

namespace dpo::report {
namespace {

constexpr std::size_t kExamplesShown = 10;  // in each list
constexpr std::size_t kResponsesShown = 4;  // per example, if it is a ranking
constexpr std::size_t kPromptsShown = 8, kMomentsShown = 4;
constexpr std::size_t kDistributions = 3, kBars = 30;

std::string after_examples(std::int64_t step) { return "after " + plural(step, "example"); }

std::string name_of_score(Score score) {
  switch (score) {
    case Score::margin: return "margin";
    case Score::reward: return "reward";
    case Score::loss: break;
  }
  return "loss";
}

// Returns the label of an axis. Rewards are shown so that more is better.
std::string axis_of(Score score) {
  return name_of_score(score) + (score == Score::reward ? ", sign changed if labelled bad" : "");
}

std::string scores_text(Score score) { return name_of_score(score) + (score == Score::loss ? "es" : "s"); }

std::filesystem::path eval_folder(const LoadedRun& run) { return run.source.folder / "eval"; }

// Returns "margin +0.000 → +1.250".
std::string change_text(const Change& change, Score score) {
  const char* const format = score == Score::loss ? "{:.4f}" : "{:+.3f}";
  const double sign = score == Score::reward && !change.desirable ? -1 : 1;  // shows the reward itself
  const auto shown = [&](double value) { return fmt::format(fmt::runtime(format), sign * value + 0.0); };
  return name_of_score(score) + " " + (change.before ? shown(*change.before) + " → " : "") +
         shown(change.now);
}

std::string title_of_response(std::size_t i, std::size_t count, bool desirable) {
  if (count == 1) return desirable ? "response" : "response, labelled bad";
  if (count == 2) return i == 0 ? "chosen" : "rejected";
  return fmt::format("rank {} of {}", i + 1, count);
}

void add_example(Page& page, const Change& change, Score score, const ExampleText* text) {
  const TurnStyle* const style = text ? turn_style_of(text->prompt) : nullptr;
  const std::vector<Turn> prompt = turns_of(text ? text->prompt : "", style);
  page.begin_details(change_text(change, score), ending_on_a_line(prompt.back().text, kSummaryCharacters));
  page.add_text(fmt::format("Example {} of the test data.", change.example));
  if (text) {
    page.add_quotes(std::vector<Quote>{{"prompt", end_of(prompt, kTextCharacters)}});
    std::vector<Quote> responses;
    for (const std::size_t i : some_of(text->responses.size(), kResponsesShown)) {
      const bool good = text->responses.size() > 1 ? i == 0 : change.desirable;
      responses.push_back({title_of_response(i, text->responses.size(), change.desirable),
                           beginning_of(turns_of(text->responses[i], style), kTextCharacters),
                           good ? Tone::good : Tone::bad});
    }
    page.add_quotes(responses);
  }
  page.end_details();
}

void add_examples_of(Page& page, const std::vector<Change>& changes, Score score,
                     const std::map<std::int64_t, ExampleText>& texts) {
  for (const Change& change : changes) {
    const auto found = texts.find(change.example);
    add_example(page, change, score, found == texts.end() ? nullptr : &found->second);
  }
}

// Returns a chart of the scores in some evaluations. Evaluations in which all scores are equal, as before the
// first update, are left out.
Chart distribution_of(const LoadedRun& run, const std::vector<std::int64_t>& steps, Score score) {
  Chart chart{"share of examples by " + axis_of(score), axis_of(score), {}};
  std::vector<std::pair<std::int64_t, std::vector<double>>> shown;
  double low = 0, high = 0;
  for (const std::size_t i : some_of(steps.size(), kDistributions)) {
    const std::vector<double> scores =
        scores_of(read_evaluation(step_file(eval_folder(run), steps[i])), score);
    if (scores.empty()) continue;
    const auto [least, most] = std::ranges::minmax(scores);
    if (least == most) continue;
    low = std::min(low, least), high = std::max(high, most);
    shown.emplace_back(steps[i], scores);
  }
  for (const auto& [step, scores] : shown)
    chart.curves.push_back({after_examples(step), histogram(scores, low, high, kBars), Mark::steps});
  return chart;
}

}  // namespace

void add_distribution(Page& page, const LoadedRun& run) {
  const std::vector<std::int64_t> steps = run.evaluated_steps();
  if (steps.empty()) return;
  const std::vector<EvaluatedExample> last = read_evaluation(step_file(eval_folder(run), steps.back()));
  const Score score = score_of_evaluation(last);
  const Chart chart = distribution_of(run, steps, score);
  if (last.empty() || chart.curves.empty()) return;
  page.add_heading("Distribution of the " + scores_text(score));
  const std::vector<double> scores = scores_of(last, score);
  const auto wrong = std::ranges::count_if(scores, [](double value) { return value <= 0; });
  const bool has_rankings =
      std::ranges::any_of(last, [](const EvaluatedExample& e) { return e.rewards.size() > 2; });
  std::string text = fmt::format("The share of held-out examples by their {}.", axis_of(score));
  if (score == Score::margin)
    text += fmt::format(" The margin is the reward of the {}; it is 0 or less for {} of {}.",
                        has_rankings ? "first response of a ranking minus that of the last one"
                                     : "chosen response minus that of the rejected one",
                        with_commas(wrong), plural(std::ssize(scores), "example"));
  page.add_text(text);
  page.add_charts(std::span(&chart, 1));
}

void add_examples(Page& page, const LoadedRun& run) {
  const std::vector<std::int64_t> steps = run.evaluated_steps();
  if (steps.empty()) return;
  const bool has_two = steps.size() > 1;
  const Changes changes = compare(
      has_two ? read_evaluation(step_file(eval_folder(run), steps.front())) : std::vector<EvaluatedExample>(),
      read_evaluation(step_file(eval_folder(run), steps.back())), kExamplesShown);
  if (changes.examples == 0) return;
  std::set<std::int64_t> wanted;
  for (const std::vector<Change>* list : {&changes.largest, &changes.worst})
    for (const Change& change : *list) wanted.insert(change.example);
  const auto texts = read_texts(run.source.folder / "eval_examples.jsonl", wanted);
  if (!changes.largest.empty()) {
    page.add_heading("Examples that changed most");
    page.add_text(fmt::format("From the first evaluation ({}) to the last ({}).",
                              after_examples(steps.front()), after_examples(steps.back())));
    add_examples_of(page, changes.largest, changes.score, texts);
  }
  if (changes.score == Score::loss) {
    if (!changes.worst.empty()) page.add_heading("Examples with the highest loss");
  } else if (!changes.worst.empty() || changes.wrong == 0) {
    page.add_heading("Examples still wrong");
    page.add_text(fmt::format(
        "{} of {} have a {} of 0 or less{}{}.", with_commas(static_cast<std::int64_t>(changes.wrong)),
        plural(static_cast<std::int64_t>(changes.examples), "example"), name_of_score(changes.score),
        changes.score == Score::reward ? " (0 or more if labelled bad)" : "",
        changes.wrong > changes.worst.size() ? fmt::format("; these are the {} worst", changes.worst.size())
                                             : ""));
  }
  add_examples_of(page, changes.worst, changes.score, texts);
  if (texts.empty() && !wanted.empty())
    page.add_text("The run folder has no eval_examples.jsonl, so there are no texts to show.");
}

void add_samples(Page& page, const LoadedRun& run) {
  const std::filesystem::path folder = run.source.folder / "samples";
  const std::vector<std::int64_t> steps = run.sampled_steps();
  std::vector<std::pair<std::int64_t, std::vector<SampleLine>>> moments;
  for (const std::size_t i : some_of(steps.size(), kMomentsShown))
    moments.emplace_back(steps[i], read_samples(step_file(folder, steps[i]), kPromptsShown));
  if (moments.empty() || moments.back().second.empty()) return;
  page.add_heading("Samples");
  page.add_text("The policy's answers to prompts of the evaluation over time, next to the reference's.");
  const std::vector<SampleLine>& last = moments.back().second;
  for (std::size_t i = 0; i < last.size(); ++i) {
    const TurnStyle* const style = turn_style_of(last[i].prompt);
    const std::vector<Turn> prompt = turns_of(last[i].prompt, style);
    const auto answer = [&](const std::string& text) {
      return beginning_of(turns_of(text, style), kTextCharacters);
    };
    page.begin_details(fmt::format("prompt {}", i + 1),
                       ending_on_a_line(prompt.back().text, kSummaryCharacters),
                       /*open=*/i == 0);
    page.add_quotes(std::vector<Quote>{{"prompt", end_of(prompt, kTextCharacters)}});
    std::vector<Quote> answers;
    if (last[i].reference) answers.push_back({"reference", answer(*last[i].reference)});
    for (const auto& [step, samples] : moments)
      if (i < samples.size() && samples[i].prompt == last[i].prompt)
        answers.push_back({"policy " + after_examples(step), answer(samples[i].policy)});
    page.add_quotes(answers);
    page.end_details();
  }
}

}  // namespace dpo::report
