#include "data/formats.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/utf8.h"
#include "config/text.h"

namespace dpo::data {
namespace {

constexpr std::string_view kAssistantTurn = "\n\nAssistant:";

std::uint32_t size_of(const std::vector<std::string>& list) {
  return static_cast<std::uint32_t>(list.size());
}

std::string as_question(const std::string& text) {
  return fmt::format("\n\nHuman: {}{}", text, kAssistantTurn);
}

// Returns the score of a response for choosing the SFT target: that of the first response with the same text.
double score_of_text(const PromptText& prompt, std::size_t response) {
  const auto first = std::find(prompt.responses.begin(), prompt.responses.end(), prompt.responses[response]);
  return prompt.scores[static_cast<std::size_t>(first - prompt.responses.begin())];
}

// Updates the SFT target with the new responses from `first` on. The earlier of two equal scores wins.
void choose_target(PromptText& prompt, std::size_t first) {
  for (std::size_t i = first; i < prompt.responses.size(); ++i)
    if (i == 0 || score_of_text(prompt, i) > score_of_text(prompt, prompt.sft_target))
      prompt.sft_target = static_cast<std::uint32_t>(i);
}

const Value& column_of(const Value& row, std::string_view column) {
  if (const Value* const value = row.find(column)) return *value;
  throw BadRow(fmt::format("no column '{}'; this row has: {}", config::shown(column),
                           config::shown(fmt::format("{}", fmt::join(row.names, ", ")))));
}

}  // namespace

const std::string& text_of(const Value& row, std::string_view column) {
  const Value& value = column_of(row, column);
  if (value.kind == Value::Kind::Text) return value.text;
  throw BadRow(fmt::format("'{}' is {}, expected a string", config::shown(column), value.kind_name()));
}

double number_of(const Value& row, std::string_view column) {
  const Value& value = column_of(row, column);
  if (value.kind == Value::Kind::Number && !std::isnan(value.number)) return value.number;
  throw BadRow(fmt::format("'{}' is {}, expected a number", config::shown(column),
                           value.kind == Value::Kind::Number ? "NaN" : value.kind_name()));
}

void add_hh_row(Value&& row, PromptTexts& texts) {
  const std::string& chosen = text_of(row, "chosen");
  const std::string& rejected = text_of(row, "rejected");
  const std::size_t turn = chosen.rfind(kAssistantTurn);
  if (turn == std::string::npos) throw BadRow("'chosen' has no assistant turn (\"\\n\\nAssistant:\")");
  const std::size_t end = turn + kAssistantTurn.size();
  // The original cuts the rejected transcript after the same number of characters, even if its prompt
  // differs.
  const std::size_t cut =
      byte_of_character(rejected, count_characters(std::string_view(chosen).substr(0, end)));
  PromptText& prompt = texts.at(chosen.substr(0, end));
  const std::uint32_t first = size_of(prompt.responses);
  prompt.responses.push_back(chosen.substr(end));
  prompt.responses.push_back(rejected.substr(cut));
  prompt.add_pair({first, first + 1});
  prompt.sft_target = first;
}

void add_shp_row(Value&& row, PromptTexts& texts) {
  constexpr double kLeastRatio = 2;
  const std::string& history = text_of(row, "history");
  const std::string& a = text_of(row, "human_ref_A");
  const std::string& b = text_of(row, "human_ref_B");
  const double score_a = number_of(row, "score_A");
  const double score_b = number_of(row, "score_B");
  const bool a_is_better = number_of(row, "labels") == 1;
  if (score_a == 0 || score_b == 0) throw BadRow("a score is 0, so there is no ratio");
  if (std::max(score_a / score_b, score_b / score_a) < kLeastRatio) return;

  PromptText& prompt = texts.at(as_question(history));
  const std::uint32_t first = size_of(prompt.responses);
  prompt.responses.push_back(" " + a);
  prompt.responses.push_back(" " + b);
  prompt.scores.insert(prompt.scores.end(), {score_a, score_b});
  prompt.add_pair(a_is_better ? Pair{first, first + 1} : Pair{first + 1, first});
  choose_target(prompt, first);
}

void add_se_row(Value&& row, PromptTexts& texts) {
  const std::string& question = text_of(row, "question");
  const Value& answers = column_of(row, "answers");
  if (answers.kind != Value::Kind::List || answers.items.empty())
    throw BadRow(fmt::format("'answers' is {}, expected a list of answers", answers.kind_name()));
  PromptText made;
  for (const Value& answer : answers.items) {
    if (answer.kind != Value::Kind::Map)
      throw BadRow(fmt::format("an answer is {}, expected an object", answer.kind_name()));
    made.responses.push_back(" " + strip_html(text_of(answer, "text")));
    made.scores.push_back(number_of(answer, "pm_score"));
  }
  for (std::uint32_t i = 0; i < made.responses.size(); ++i)
    for (std::uint32_t j = i + 1; j < made.responses.size(); ++j)
      made.pairs.push_back(made.scores[i] > made.scores[j] ? Pair{i, j} : Pair{j, i});
  if (Ranking ranking{ranked_by(made.scores)}; ranking.responses.size() > 1)
    made.rankings.push_back(std::move(ranking));
  choose_target(made, 0);
  // A repeated question keeps its position and takes the later answers.
  PromptText& prompt = texts.at(as_question(strip_html(question)));
  made.prompt = prompt.prompt;
  prompt = std::move(made);
}

}  // namespace dpo::data
