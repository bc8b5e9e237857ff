#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/nearest.h"
#include "base/utf8.h"
#include "config/text.h"
#include "data/columns.h"
#include "data/conversation.h"
#include "data/formats.h"

namespace dpo::data {
namespace {

// Returns an optional number of a row. It may be text, because CSV has no other type.
float optional_number(const Columns& columns, const std::string& ours, float fallback) {
  const Value* const value = columns.find(ours);
  if (!value) return fallback;
  const std::string column = columns.name_of(ours);
  const bool is_text = value->kind == Value::Kind::Text;
  const std::string& text = value->text;
  double number = value->number;
  bool parses = false;
  if (is_text) {
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, number);
    parses = at == end && error == std::errc();
  }
  if (value->kind != Value::Kind::Number && !parses)
    throw BadRow(fmt::format("'{}' is {}, expected a number", config::shown(column),
                             is_text ? fmt::format("'{}'", config::shown(text)) : value->kind_name()));
  const auto rounded = static_cast<float>(number);
  if (!std::isfinite(rounded))
    throw BadRow(fmt::format("'{}' is {}, expected a finite number", config::shown(column), number));
  return rounded;
}

float weight_of(const Columns& columns) {
  const float weight = optional_number(columns, "weight", 1);
  if (weight < 0)
    throw BadRow(
        fmt::format("'{}' is {}, expected a number >= 0", config::shown(columns.name_of("weight")), weight));
  return weight;
}

void set_pair(PromptText& prompt, const Columns& columns, std::uint32_t chosen, std::uint32_t rejected) {
  prompt.add_pair({chosen, rejected, weight_of(columns), optional_number(columns, "margin", 0)});
  prompt.sft_target = chosen;
}

const Value& list_of(const Columns& columns, const std::string& ours) {
  const Value* const value = columns.find(ours);
  if (!value || value->kind != Value::Kind::List)
    throw BadRow(fmt::format("'{}' is {}, expected a list", config::shown(columns.name_of(ours)),
                             value ? value->kind_name() : "missing"));
  return *value;
}

void require(const Value& item, Value::Kind kind, const std::string& column, std::string_view what) {
  if (item.kind != kind)
    throw BadRow(fmt::format("'{}' is a list that contains {}, expected {} only", config::shown(column),
                             item.kind_name(), what));
}

// Returns the scores of the responses; higher is better. Ranks are negated, because rank 1 is the best.
std::vector<double> scores_of(const Columns& columns) {
  const bool ranked = !columns.has("scores");
  const std::string ours = ranked ? "ranking" : "scores", column = columns.name_of(ours);
  std::vector<double> scores;
  for (const Value& value : list_of(columns, ours).items) {
    require(value, Value::Kind::Number, column, "numbers");
    if (std::isnan(value.number)) throw BadRow(fmt::format("'{}' contains NaN", config::shown(column)));
    scores.push_back(ranked ? -value.number : value.number);
  }
  return scores;
}

void set_ranking(PromptText& prompt, const Columns& columns) {
  const std::vector<double> scores = scores_of(columns);
  if (scores.size() != prompt.responses.size() || scores.empty())
    throw BadRow(fmt::format("{} responses, but {} scores or ranks", prompt.responses.size(), scores.size()));
  if (columns.has("margin"))
    throw BadRow(fmt::format("'{}' applies to pairs, but this row has a list of responses",
                             config::shown(columns.name_of("margin"))));
  const float weight = weight_of(columns);
  for (std::uint32_t i = 0; i < scores.size(); ++i)
    for (std::uint32_t j = i + 1; j < scores.size(); ++j) {
      if (scores[i] > scores[j]) prompt.pairs.push_back({i, j, weight});
      if (scores[j] > scores[i]) prompt.pairs.push_back({j, i, weight});
    }
  if (Ranking ranking{ranked_by(scores), weight}; ranking.responses.size() > 1)
    prompt.rankings.push_back(std::move(ranking));
  prompt.sft_target =
      static_cast<std::uint32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

// Returns whether a completion is desirable. The label is a boolean, or 0 or 1, also as text.
bool label_of(const Columns& columns) {
  const Value& label = *columns.find("label");
  std::string text = label.kind == Value::Kind::Text ? label.text : fmt::format("{}", label.number);
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const bool is_scalar =
      label.kind == Value::Kind::Bool || label.kind == Value::Kind::Number || label.kind == Value::Kind::Text;
  if (is_scalar && (text == "true" || text == "1")) return true;
  if (is_scalar && (text == "false" || text == "0")) return false;
  throw BadRow(fmt::format("'{}' is {}, expected true or false", config::shown(columns.name_of("label")),
                           is_scalar ? fmt::format("'{}'", config::shown(text)) : label.kind_name()));
}

// Sets how the responses of a row compare. They are in the order of answers_of().
void set_preference(PromptText& prompt, const Columns& columns, Form form) {
  switch (form) {
    case Form::Pair: set_pair(prompt, columns, 0, 1); return;
    case Form::List: set_ranking(prompt, columns); return;
    case Form::Comparison: {
      const float preference = optional_number(columns, "overall_preference", 0);
      if (preference != 0) set_pair(prompt, columns, preference < 0 ? 0 : 1, preference < 0 ? 1 : 0);
      return;
    }
    case Form::Label: prompt.labels.push_back({0, label_of(columns), weight_of(columns)}); break;
    case Form::Completion:
    case Form::Chat:
    case Form::Text: break;
  }
  prompt.own_entry = true;
}

struct Answer {
  const Value* value;
  std::string column;
};

std::vector<Answer> answers_of(const Columns& columns, Form form) {
  std::vector<Answer> answers;
  const auto add = [&](const std::string& ours) {
    answers.push_back({columns.find(ours), columns.name_of(ours)});
  };
  switch (form) {
    case Form::Pair: add("chosen"), add("rejected"); break;
    case Form::Comparison: add("response1"), add("response2"); break;
    case Form::Label:
    case Form::Completion: add("completion"); break;
    case Form::Chat: add("messages"); break;
    case Form::Text: add("text"); break;
    case Form::List:
      for (const Value& item : list_of(columns, "responses").items)
        answers.push_back({&item, columns.name_of("responses")});
  }
  return answers;
}

std::string text_in(const Answer& answer, Form form) {
  if (form == Form::List) require(*answer.value, Value::Kind::Text, answer.column, "strings");
  if (answer.value->kind != Value::Kind::Text)
    throw BadRow(fmt::format("'{}' is {}, expected a string or messages with 'role' and 'content'",
                             config::shown(answer.column), shape_of(*answer.value)));
  return answer.value->text;
}

PromptText read_texts(const Columns& columns, Form form) {
  PromptText made;
  for (const Answer& answer : answers_of(columns, form)) made.responses.push_back(text_in(answer, form));
  if (columns.has("prompt") && form != Form::Text) {
    made.prompt = text_in({columns.find("prompt"), columns.name_of("prompt")}, Form::Pair);
    if (made.prompt.empty()) throw BadRow("the prompt is empty");
  } else if (form == Form::Pair) {
    const std::size_t end = prompt_end(made.responses[0], made.responses[1]);
    if (end == 0)
      throw BadRow(
          "'chosen' and 'rejected' have no common prefix, so there is no prompt; add a column 'prompt'");
    made.prompt = made.responses[0].substr(0, end);
    for (std::string& response : made.responses) response.erase(0, end);
  } else if (form != Form::Text) {
    throw BadRow("the row has no prompt");
  }
  made.split_hash = split_hash_of(made.prompt.empty() ? made.responses.front() : made.prompt);
  return made;
}

// Converts a column to messages. A text becomes one message with this role.
Messages turns_of(const Value& value, const std::string& column, const char* role) {
  if (value.kind == Value::Kind::Text) return {make_message(role, value.text)};
  if (is_messages(value)) return messages_of(value, column);
  throw BadRow(fmt::format("'{}' is {}, expected a string or messages with 'role' and 'content'",
                           config::shown(column), shape_of(value)));
}

// Returns the messages of a whole conversation. A text is rejected, because its speaker is unknown.
Messages whole_conversation(const Answer& answer) {
  if (is_messages(*answer.value)) return messages_of(*answer.value, answer.column);
  throw BadRow(fmt::format("'{}' is {}, expected a list of messages with 'role' and 'content'{}",
                           config::shown(answer.column), shape_of(*answer.value),
                           answer.value->kind == Value::Kind::Text
                               ? "; a CSV file cannot have lists, .jsonl and .parquet can"
                               : ""));
}

// Returns a question, followed by its 'input' if there is one.
Messages question_of(const Columns& columns, const Value& question) {
  const Value* const input = columns.find("input");
  if (input && (input->kind == Value::Kind::Other || !input->items.empty()))
    throw BadRow(fmt::format("'{}' is {}, expected a string", config::shown(columns.name_of("input")),
                             input->kind_name()));
  if (!input || input->text.empty()) return turns_of(question, columns.name_of("question"), "user");
  if (question.kind != Value::Kind::Text)
    throw BadRow(fmt::format("'{}' is {}, expected a string beside 'input'",
                             config::shown(columns.name_of("question")), question.kind_name()));
  return {make_message("user", question.text + "\n\n" + input->text)};
}

// Returns the messages before the answers.
Messages prompt_messages(const Columns& columns, Form form) {
  if (form == Form::Chat) return {};
  for (const char* ours : {"prompt", "question", "context", "messages"})
    if (const Value* const value = columns.find(ours); value && value->kind != Value::Kind::Null)
      return std::string_view(ours) == "question" ? question_of(columns, *value)
                                                  : turns_of(*value, columns.name_of(ours), "user");
  return {};
}

// Adds the system message of the row's `system` column.
void add_system(Messages& messages, const Columns& columns) {
  const Value* const system = columns.find("system");
  if (!system || system->kind == Value::Kind::Null) return;
  const std::string text = text_of(columns.row(), columns.name_of("system"));
  if (text.empty()) return;
  const Value message = make_message("system", text);
  if (messages.empty() || role_of(messages[0]) != "system")
    messages.insert(messages.begin(), message);
  else if (messages[0] != message)
    throw BadRow(fmt::format("the messages begin with another system message than '{}'",
                             config::shown(columns.name_of("system"))));
}

// Hashes the messages before the first answer, so that the hash is the same for every loss and setting.
std::uint64_t hash_of_first_turns(const Messages& prompt) {
  const auto is_answer = [](const Value& message) { return role_of(message) == "assistant"; };
  return split_hash_of(response_json(std::span(prompt.begin(), std::ranges::find_if(prompt, is_answer))));
}

PromptText read_chat(const Columns& columns, Form form, config::TrainOn train_on) {
  Messages prompt = prompt_messages(columns, form);
  std::vector<Messages> answers;
  for (const Answer& answer : answers_of(columns, form))
    answers.push_back(form == Form::Chat ? whole_conversation(answer)
                                         : turns_of(*answer.value, answer.column, "assistant"));
  Conversation split;
  if (form == Form::Chat) {
    add_system(answers[0], columns);
    split = split_for_sft(std::move(answers[0]), train_on);
  } else {
    add_system(prompt, columns);
    const Value* const text = columns.find(columns.has("prompt") ? "prompt" : "question");
    split =
        split_conversation(std::move(prompt), std::move(answers), text && text->kind == Value::Kind::Text);
  }
  PromptText made;
  made.chat = true;
  made.split_hash = hash_of_first_turns(split.prompt);
  made.prompt = prompt_json(split.prompt, columns.find("tools"), columns.find("chat_template_kwargs"));
  for (const Messages& response : split.responses) made.responses.push_back(response_json(response));
  return made;
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// Returns whether a word ends before `at`.
bool is_word_end(std::string_view text, std::size_t at) { return at == text.size() || is_space(text[at]); }

// Describes a column that data.columns names and the row does not have, the usual reason for a bad row.
std::string named_but_absent(const Value& row, const ColumnNames& names) {
  std::vector<std::string> shown;
  for (const std::string& name : row.names) shown.push_back(config::shown(name));
  for (const auto& [ours, theirs] : names)
    if (ours != "weight" && ours != "margin" && theirs != kNoColumn && !row.find(theirs))
      return fmt::format("; data.columns={{{}: {}}} names a column that this row does not have{}", ours,
                         config::shown(theirs), did_you_mean(config::shown(theirs), shown));
  return "";
}

std::size_t common_length(std::string_view a, std::string_view b) {
  auto length =
      static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  while (length > 0 && ((length < a.size() && continues_character(a[length])) ||
                        (length < b.size() && continues_character(b[length]))))
    --length;
  return length;
}

}  // namespace

std::size_t prompt_end(std::string_view chosen, std::string_view rejected) {
  // Common starts of an assistant's turn.
  constexpr std::array<std::string_view, 6> kTurns = {"\n\nAssistant:",
                                                      "<|im_start|>assistant\n",
                                                      "<|start_header_id|>assistant<|end_header_id|>\n\n",
                                                      "<|assistant|>\n",
                                                      "[/INST]",
                                                      "### Response:\n"};
  const std::size_t common = common_length(chosen, rejected);
  const std::string_view shared = chosen.substr(0, common);
  std::size_t turn = 0;
  for (const std::string_view mark : kTurns)
    if (const std::size_t at = shared.rfind(mark); at != std::string_view::npos)
      turn = std::max(turn, at + mark.size());
  if (turn > 0) return turn;
  if (is_word_end(chosen, common) && is_word_end(rejected, common)) return common;
  // Tokenizers join a space to the following word, so a space belongs to the response. A newline does not.
  const std::size_t space = shared.find_last_of(" \n\t\r");
  if (space == std::string_view::npos) return 0;
  return shared[space] == '\n' ? space + 1 : space;
}

PromptText read_by_columns(const Value& row, const ColumnNames& names, config::TrainOn train_on) {
  try {
    const Columns columns(row, names);
    const Form form = columns.form();
    PromptText made = columns.is_chat(form) ? read_chat(columns, form, train_on) : read_texts(columns, form);
    set_preference(made, columns, form);
    return made;
  } catch (const BadRow& bad) {
    throw BadRow(bad.what() + named_but_absent(row, names));
  }
}

}  // namespace dpo::data
