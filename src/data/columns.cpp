#include "data/columns.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/nearest.h"
#include "base/utf8.h"
#include "config/text.h"
#include "data/formats.h"

namespace dpo::data {
namespace {

// Names of columns may contain anything.
std::vector<std::string> shown_names(std::vector<std::string> names) {
  for (std::string& name : names) name = config::shown(name);
  return names;
}

std::string file_name(const ColumnNames& names, const std::string& ours) {
  const auto mapped = names.find(ours);
  return mapped == names.end() ? ours : mapped->second;
}

// A column of a row by our name; null if the row does not have it, or it is mapped to none.
const Value* find_column(const Value& row, const ColumnNames& names, const std::string& ours) {
  const std::string column = file_name(names, ours);
  return column == kNoColumn ? nullptr : row.find(column);
}

bool is_chat(const Value& value) {
  return value.kind == Value::Kind::List && !value.items.empty() && value.items[0].find("role") &&
         value.items[0].find("content");
}

void refuse_chat(const Value& row) {
  for (std::size_t i = 0; i < row.items.size(); ++i)
    if (is_chat(row.items[i]))
      throw BadRow(fmt::format(
          "'{}' is a list of chat messages with roles, which is not supported yet; apply the model's chat "
          "template first (in Python: tokenizer.apply_chat_template(messages, tokenize=False)) and write the "
          "texts as columns prompt, chosen and rejected",
          config::shown(row.names[i])));
}

[[noreturn]] void refuse_columns(const Value& row) {
  throw BadRow(
      fmt::format("expected the columns 'prompt, chosen, rejected', 'chosen, rejected' (whole transcripts), "
                  "'prompt, responses' with 'scores' or 'ranking', 'prompt, completion' (SFT), 'prompt, "
                  "completion, label' (KTO) or 'text' (SFT), got: {}; "
                  "data.columns={{prompt: NAME, ...}} maps other names",
                  config::shown(fmt::format("{}", fmt::join(row.names, ", ")))));
}

void check_prompt(const std::string& text) {
  if (text.empty()) throw BadRow("the prompt is empty");
}

PromptText& prompt_at(std::string text, PromptTexts& texts) {
  check_prompt(text);
  return texts.at(std::move(text));
}

// An optional number of a row, maybe as text: CSV has nothing else.
float optional_number(const Value& row, const ColumnNames& names, const std::string& ours, float fallback) {
  const Value* const value = find_column(row, names, ours);
  if (!value) return fallback;
  const std::string column = file_name(names, ours);
  const std::string& text = value->text;
  double number = value->number;
  const bool is_text = value->kind == Value::Kind::Text;
  const bool parses = is_text && std::from_chars(text.data(), text.data() + text.size(), number).ptr ==
                                     text.data() + text.size();
  if (value->kind != Value::Kind::Number && !(parses && !text.empty()))
    throw BadRow(fmt::format("'{}' is {}, expected a number", config::shown(column),
                             is_text ? fmt::format("'{}'", config::shown(text)) : value->kind_name()));
  const auto rounded = static_cast<float>(number);
  if (!std::isfinite(rounded))
    throw BadRow(fmt::format("'{}' is {}, expected a finite number", config::shown(column), number));
  return rounded;
}

float weight_of(const Value& row, const ColumnNames& names) {
  const float weight = optional_number(row, names, "weight", 1);
  if (weight < 0)
    throw BadRow(
        fmt::format("'{}' is {}, expected a number >= 0", config::shown(file_name(names, "weight")), weight));
  return weight;
}

struct Preference {
  float weight = 1, margin = 0;
};

Preference preference_of(const Value& row, const ColumnNames& names) {
  return {weight_of(row, names), optional_number(row, names, "margin", 0)};
}

void add_pair(std::string prompt_text, std::string chosen, std::string rejected, Preference preference,
              PromptTexts& texts) {
  PromptText& prompt = prompt_at(std::move(prompt_text), texts);
  const auto first = static_cast<std::uint32_t>(prompt.responses.size());
  prompt.responses.push_back(std::move(chosen));
  prompt.responses.push_back(std::move(rejected));
  prompt.add_pair({first, first + 1, preference.weight, preference.margin});
  prompt.sft_target = first;
}

void add_transcripts(const std::string& chosen, const std::string& rejected, Preference preference,
                     PromptTexts& texts) {
  const std::size_t end = prompt_end(chosen, rejected);
  if (end == 0) throw BadRow("'chosen' and 'rejected' have no common prefix, so there is no prompt");
  add_pair(chosen.substr(0, end), chosen.substr(end), rejected.substr(end), preference, texts);
}

const Value& list_of(const Value& row, const std::string& column, Value::Kind kind, std::string_view what) {
  const Value* const value = row.find(column);
  if (!value || value->kind != Value::Kind::List)
    throw BadRow(fmt::format("'{}' is {}, expected a list of {}", config::shown(column),
                             value ? value->kind_name() : "missing", what));
  for (const Value& item : value->items)
    if (item.kind != kind)
      throw BadRow(fmt::format("'{}' is a list that contains {}, expected {} only", config::shown(column),
                               item.kind_name(), what));
  return *value;
}

// The scores of the responses, higher is better; in a ranking 1 is the best.
std::vector<double> scores_of(const Value& row, const ColumnNames& names) {
  const bool ranked = find_column(row, names, "scores") == nullptr;
  const std::string column = file_name(names, ranked ? "ranking" : "scores");
  std::vector<double> scores;
  for (const Value& value : list_of(row, column, Value::Kind::Number, "numbers").items) {
    if (std::isnan(value.number)) throw BadRow(fmt::format("'{}' contains NaN", config::shown(column)));
    scores.push_back(ranked ? -value.number : value.number);
  }
  return scores;
}

void add_list(const Value& row, const ColumnNames& names, PromptTexts& texts) {
  const std::string column = file_name(names, "responses");
  const Value& responses = list_of(row, column, Value::Kind::Text, "strings");
  const std::vector<double> scores = scores_of(row, names);
  if (scores.size() != responses.items.size() || scores.empty())
    throw BadRow(fmt::format("{} responses, but {} scores or ranks", responses.items.size(), scores.size()));
  if (find_column(row, names, "margin"))
    throw BadRow(fmt::format("'{}' applies to pairs, but this row has a list of responses",
                             config::shown(file_name(names, "margin"))));
  const float weight = weight_of(row, names);
  PromptText& prompt = prompt_at(text_of(row, file_name(names, "prompt")), texts);
  const auto first = static_cast<std::uint32_t>(prompt.responses.size());
  for (std::uint32_t i = 0; i < scores.size(); ++i) {
    prompt.responses.push_back(responses.items[i].text);
    for (std::uint32_t j = i + 1; j < scores.size(); ++j) {
      if (scores[i] > scores[j]) prompt.pairs.push_back({first + i, first + j, weight});
      if (scores[j] > scores[i]) prompt.pairs.push_back({first + j, first + i, weight});
    }
  }
  if (Ranking ranking{ranked_by(scores), weight}; ranking.responses.size() > 1) {
    for (std::uint32_t& response : ranking.responses) response += first;
    prompt.rankings.push_back(std::move(ranking));
  }
  const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
  prompt.sft_target = first + static_cast<std::uint32_t>(best);
}

// Whether a response is good: a boolean, or 0 or 1, also as text.
bool is_desirable(const Value& label, const std::string& column) {
  using Kind = Value::Kind;
  std::string text = label.kind == Kind::Text ? label.text : fmt::format("{}", label.number);
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  const bool is_scalar = label.kind == Kind::Bool || label.kind == Kind::Number || label.kind == Kind::Text;
  if (is_scalar && (text == "true" || text == "1")) return true;
  if (is_scalar && (text == "false" || text == "0")) return false;
  throw BadRow(fmt::format("'{}' is {}, expected true or false", config::shown(column),
                           is_scalar ? fmt::format("'{}'", config::shown(text)) : label.kind_name()));
}

// One response: to imitate, or with a label that says whether it is good.
void add_completion(const Value& row, const ColumnNames& names, PromptTexts& texts) {
  const std::string& prompt = text_of(row, file_name(names, "prompt"));
  const std::string& completion = text_of(row, file_name(names, "completion"));
  check_prompt(prompt);
  std::vector<Label> labels;
  if (const Value* const label = find_column(row, names, "label"))
    labels.push_back({0, is_desirable(*label, file_name(names, "label")), weight_of(row, names)});
  PromptText& made = texts.add(prompt);
  made.responses.push_back(completion);
  made.labels = std::move(labels);
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// Whether a word ends before `at`.
bool is_word_end(std::string_view text, std::size_t at) { return at == text.size() || is_space(text[at]); }

// The forms of rows, by their columns.
enum class Form { List, Pair, Completion, Text, Unknown };

Form form_of(const Value& row, const ColumnNames& names) {
  const auto has = [&](const char* ours) { return find_column(row, names, ours) != nullptr; };
  if (has("responses") && has("prompt") && (has("scores") || has("ranking"))) return Form::List;
  if (has("chosen") && has("rejected")) return Form::Pair;
  if (has("prompt") && has("completion")) return Form::Completion;
  // A text with other parts of an example is a mistake: which is the response?
  for (const char* const other : {"prompt", "chosen", "rejected", "responses", "completion"})
    if (has(other)) return Form::Unknown;
  return has("text") ? Form::Text : Form::Unknown;
}

// The columns that a row of this form may have, by our names.
std::vector<std::string> columns_of(Form form) {
  switch (form) {
    case Form::List: return {"prompt", "responses", "scores", "ranking", "weight"};
    case Form::Completion: return {"prompt", "completion", "label", "weight"};
    case Form::Text: return {"text"};
    default: return {"prompt", "chosen", "rejected", "weight", "margin"};
  }
}

// A column that data.columns names and a row does not have: the usual reason for a bad row.
std::string named_but_absent(const Value& row, const ColumnNames& names) {
  for (const auto& [ours, theirs] : names)
    if (ours != "weight" && ours != "margin" && theirs != kNoColumn && !row.find(theirs))
      return fmt::format("; data.columns={{{}: {}}} names a column that this row does not have{}", ours,
                         config::shown(theirs), did_you_mean(config::shown(theirs), shown_names(row.names)));
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
  // How an assistant's turn begins in common formats.
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
  // Tokenizers join a space to the word after it, so the space belongs to the response; a newline does not.
  const std::size_t space = shared.find_last_of(" \n\t\r");
  if (space == std::string_view::npos) return 0;
  return shared[space] == '\n' ? space + 1 : space;
}

void add_row_by_columns(Value&& row, const ColumnNames& names, PromptTexts& texts) {
  refuse_chat(row);
  const auto has = [&](const char* ours) { return find_column(row, names, ours) != nullptr; };
  const auto text = [&](const char* ours) -> const std::string& {
    return text_of(row, file_name(names, ours));
  };
  try {
    const Form form = form_of(row, names);
    if (form == Form::Unknown) refuse_columns(row);
    if (form == Form::List) return add_list(row, names, texts);
    if (form == Form::Completion) return add_completion(row, names, texts);
    if (form == Form::Text) {
      const std::string& whole = text("text");  // may throw, so before the prompt exists
      return texts.add("").responses.push_back(whole);
    }
    const Preference preference = preference_of(row, names);
    if (has("prompt")) return add_pair(text("prompt"), text("chosen"), text("rejected"), preference, texts);
    add_transcripts(text("chosen"), text("rejected"), preference, texts);
  } catch (const BadRow& bad) {
    throw BadRow(bad.what() + named_but_absent(row, names));
  }
}

void ColumnUse::add(const Value& row) {
  if (row.names == last_) return;  // in nearly every file
  last_ = row.names;
  seen_.insert(row.names.begin(), row.names.end());
  for (const std::string& ours : columns_of(form_of(row, names_))) {
    const bool unused = ours == "ranking" && find_column(row, names_, "scores");
    if (find_column(row, names_, ours) && !unused) used_.insert(file_name(names_, ours));
  }
}

std::string ColumnUse::problem() const {
  if (seen_.empty()) return "";  // no rows at all is another error
  const std::vector<std::string> seen(seen_.begin(), seen_.end());
  for (const auto& [ours, theirs] : names_)
    if (theirs != kNoColumn && !seen_.contains(theirs))
      return fmt::format(
          "data.columns={{{0}: {1}}}: no row has a column '{1}'{2} (columns: {3}; {{{0}: {4}}} ignores it)",
          ours, config::shown(theirs), did_you_mean(config::shown(theirs), shown_names(seen)),
          config::shown(fmt::format("{}", fmt::join(seen, ", "))), kNoColumn);
  return "";
}

std::vector<std::string> ColumnUse::unused() const {
  std::vector<std::string> columns;
  for (const std::string& column : seen_) {
    const auto off = names_.find(column);
    const bool ignored = off != names_.end() && off->second == kNoColumn;
    if (!used_.contains(column) && !ignored) columns.push_back(column);
  }
  return columns;
}

}  // namespace dpo::data
