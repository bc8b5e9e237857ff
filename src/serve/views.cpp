#include "serve/views.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "report/changes.h"
#include "report/loaded_run.h"
#include "report/turns.h"

namespace dpo::serve {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using report::Change;
using report::Score;

// Returns the turns of a text up to a limit, and the number of characters left out. Each turn costs one more
// character, because there may be very many empty turns.
json turns_json(const std::string& text, const report::TurnStyle* style, bool whole) {
  json turns = json::array();
  std::size_t room = kShownCharacters, more = 0;
  for (const report::Turn& turn : report::turns_of(replace_invalid_utf8(text), style)) {
    const std::size_t end = whole ? turn.text.size() : byte_of_character(turn.text, room);
    if (whole || room > 0) turns.push_back({{"role", turn.role}, {"text", turn.text.substr(0, end)}});
    const std::size_t left = count_characters(std::string_view(turn.text).substr(end));
    room -= std::min(room, 1 + count_characters(turn.text) - left);
    more += left;
  }
  return {{"turns", turns}, {"more", more}};
}

const char* name_of(Score score) {
  switch (score) {
    case Score::margin: return "margin";
    case Score::reward: return "reward";
    case Score::loss: break;
  }
  return "loss";
}

// Returns the index of the last step up to the requested one (the first step if all are later), or that of
// the last step if none was requested.
std::optional<std::size_t> chosen_step(const std::vector<std::int64_t>& steps, const Question& question) {
  if (steps.empty()) return std::nullopt;
  if (!question.step) return steps.size() - 1;
  const auto after = std::ranges::upper_bound(steps, *question.step);
  return after == steps.begin() ? 0 : static_cast<std::size_t>(after - steps.begin()) - 1;
}

// Returns the description of one step: its number, and those of the first, last, previous and next steps.
json view_of_step(const std::vector<std::int64_t>& steps, std::optional<std::size_t> at) {
  json view = {{"steps", steps.size()}, {"all", 0}, {"found", 0}, {"from", 0}};
  if (!at) return view;
  view["step"] = steps[*at], view["first"] = steps.front(), view["last"] = steps.back();
  if (*at > 0) view["previous"] = steps[*at - 1];
  if (*at + 1 < steps.size()) view["next"] = steps[*at + 1];
  return view;
}

std::vector<Change> changes_of(const fs::path& folder, std::int64_t first_step, std::int64_t step,
                               Score& score) {
  const auto last = report::read_evaluation(report::step_file(folder, step));
  const auto first = report::read_evaluation(report::step_file(folder, first_step));
  score = report::score_of_evaluation(last);
  std::map<std::int64_t, double> before;
  for (const report::EvaluatedExample& example : first)
    if (const auto value = report::score_of(example, score)) before[example.example] = *value;
  std::vector<Change> changes;
  for (const report::EvaluatedExample& example : last) {
    const auto value = report::score_of(example, score);
    if (!value) continue;
    Change change{example.example, example.desirable, *value};
    if (const auto found = before.find(example.example); found != before.end()) change.before = found->second;
    changes.push_back(change);
  }
  return changes;
}

void sort_by(std::vector<Change>& changes, const std::string& order, Score score) {
  const double sign = score == Score::loss ? -1 : 1;  // a higher loss is worse
  if (order == "worst")
    std::ranges::stable_sort(changes, {}, [&](const Change& change) { return sign * change.now; });
  else if (order == "best")
    std::ranges::stable_sort(changes, {}, [&](const Change& change) { return -sign * change.now; });
  else if (order == "changed")
    std::ranges::stable_sort(changes, {}, [](const Change& change) { return -std::abs(change.size()); });
  else
    std::ranges::stable_sort(changes, {}, &Change::example);
}

// Returns the shown part of a list as indices.
std::pair<std::size_t, std::size_t> shown_part(std::size_t count, std::size_t from) {
  from = std::min(from, count);
  return {from, std::min(count, from + kPageSize)};
}

}  // namespace

json run_view(const report::RunSource& source, const report::FollowedRun& followed) {
  const std::string prompt = report::first_prompt(source.folder / "eval_examples.jsonl");
  json view = {{"findings", json::array()},
               {"settings", json::array()},
               {"learned", nullptr},
               {"chat", report::turn_style_of(prompt) != nullptr}};
  std::error_code none;
  if (fs::file_size(source.folder / "metrics.jsonl", none) > 0 && !none) {
    const report::LoadedRun run(source, followed);
    view["learned"] = report::what_was_learned(run).sentence;
    view["findings"] = report::findings_of(run);
  }
  if (source.facts)
    for (const auto& [name, value] : source.facts->settings) view["settings"].push_back({name, value});
  else
    view["problem"] = source.problem;
  return view;
}

json examples_view(const fs::path& run, const Question& question) {
  const std::vector<std::int64_t> steps = report::steps_in(run / "eval");
  const auto at = chosen_step(steps, question);
  json view = view_of_step(steps, at);
  view["examples"] = json::array();
  if (!at) return view;
  Score score = Score::margin;
  std::vector<Change> changes = changes_of(run / "eval", steps.front(), steps[*at], score);
  view["score"] = name_of(score), view["all"] = changes.size();
  const fs::path texts_file = run / "eval_examples.jsonl";
  if (question.only)
    std::erase_if(changes, [&](const Change& change) { return change.example != *question.only; });
  else if (!question.filter.empty()) {
    const std::set<std::int64_t> found = report::find_texts(texts_file, question.filter);
    std::erase_if(changes, [&](const Change& change) { return !found.contains(change.example); });
  }
  sort_by(changes, question.order, score);
  const auto [begin, end] = shown_part(changes.size(), question.from);
  std::set<std::int64_t> wanted;
  for (std::size_t i = begin; i < end; ++i) wanted.insert(changes[i].example);
  const auto texts = report::read_texts(texts_file, wanted);
  view["found"] = changes.size();
  view["from"] = begin;
  for (std::size_t i = begin; i < end; ++i) {
    const Change& change = changes[i];
    json line = {{"example", change.example}, {"now", change.now}, {"desirable", change.desirable}};
    if (change.before) line["before"] = *change.before;
    if (const auto text = texts.find(change.example); text != texts.end()) {
      const report::TurnStyle* const style = report::turn_style_of(text->second.prompt);
      line["prompt"] = turns_json(text->second.prompt, style, question.only.has_value());
      line["responses"] = json::array();
      for (const std::string& response : text->second.responses)
        line["responses"].push_back(turns_json(response, style, question.only.has_value()));
    }
    view["examples"].push_back(std::move(line));
  }
  return view;
}

json samples_view(const fs::path& run, const Question& question) {
  constexpr std::size_t kMost = 10'000;
  const std::vector<std::int64_t> steps = report::steps_in(run / "samples");
  const auto at = chosen_step(steps, question);
  json view = view_of_step(steps, at);
  view["samples"] = json::array();
  if (!at) return view;
  const auto samples = report::read_samples(report::step_file(run / "samples", steps[*at]), kMost);
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const report::SampleLine& sample = samples[i];
    const auto matches = [&](const std::string& text) {
      return report::contains_text(text, question.filter);
    };
    const bool is_wanted = question.only ? static_cast<std::size_t>(*question.only) == i
                                         : matches(sample.prompt) || matches(sample.policy) ||
                                               matches(sample.reference.value_or(""));
    if (is_wanted) found.push_back(i);
  }
  const auto [begin, end] = shown_part(found.size(), question.from);
  view["all"] = samples.size(), view["found"] = found.size(), view["from"] = begin;
  for (std::size_t i = begin; i < end; ++i) {
    const report::SampleLine& sample = samples[found[i]];
    const report::TurnStyle* const style = report::turn_style_of(sample.prompt);
    const auto turns = [&](const std::string& text) {
      return turns_json(text, style, question.only.has_value());
    };
    json line = {{"sample", found[i]}, {"prompt", turns(sample.prompt)}, {"policy", turns(sample.policy)}};
    if (sample.reference) line["reference"] = turns(*sample.reference);
    view["samples"].push_back(std::move(line));
  }
  return view;
}

}  // namespace dpo::serve
