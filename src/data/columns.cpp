#include "data/columns.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/nearest.h"
#include "config/text.h"
#include "data/conversation.h"

namespace dpo::data {
namespace {

// Other common names of a column.
struct Alias {
  std::string_view ours, other;
};
constexpr std::array<Alias, 10> kAliases = {{{"chosen", "chosen_response"},
                                             {"rejected", "rejected_response"},
                                             {"responses", "completions"},
                                             {"completion", "output"},
                                             {"completion", "response"},
                                             {"messages", "conversations"},
                                             {"messages", "conversation"},
                                             {"question", "instruction"},
                                             {"system", "system_prompt"},
                                             {"ranking", "rank"}}};

// Makes column names safe to print, because they may contain anything.
std::vector<std::string> shown_names(std::vector<std::string> names) {
  for (std::string& name : names) name = config::shown(name);
  return names;
}

struct FormColumns {
  Form form;
  std::vector<std::string> needed;
  std::vector<std::string> optional;  // in addition to those of every form
  const char* meaning;
};

const std::vector<FormColumns>& form_table() {
  static const std::vector<FormColumns> table = {
      {Form::Pair, {"chosen", "rejected"}, {"weight", "margin"}, "pairs of chosen and rejected"},
      {Form::List,
       {"responses"},
       {"scores", "ranking", "weight"},
       "lists of responses, compared by their scores or ranks"},
      {Form::Comparison,
       {"response1", "response2", "overall_preference"},
       {"context", "weight", "margin"},
       "two responses; below 0 overall_preference prefers the first, above 0 the second"},
      {Form::Label, {"completion", "label"}, {"weight"}, "completions with labels, desirable or not"},
      {Form::Completion, {"completion"}, {}, "prompts with a completion, for SFT"},
      {Form::Chat, {"messages"}, {}, "whole conversations, for SFT"},
      {Form::Text, {"text"}, {}, "texts without a prompt, for SFT"},
  };
  return table;
}

const FormColumns& columns_of(Form form) {
  return *std::ranges::find(form_table(), form, &FormColumns::form);
}

bool is_preference(Form form) {
  return form == Form::Pair || form == Form::List || form == Form::Comparison || form == Form::Label;
}

// Suggests a mapping from the standard names to the row's columns: "prompt: Prompt, rejected: reject", or a
// placeholder.
std::string mapping_for(const Value& row) {
  std::vector<std::string> pairs;
  for (const char* const ours : {"prompt", "chosen", "rejected"})
    if (const auto near = row.find(ours) ? std::nullopt : nearest_name(ours, row.names))
      pairs.push_back(fmt::format("{}: {}", ours, config::shown(*near)));
  return pairs.empty() ? "prompt: NAME, ..." : fmt::format("{}", fmt::join(pairs, ", "));
}

[[noreturn]] void refuse_columns(const Value& row) {
  const auto is_object = [](const Value& item) { return item.kind == Value::Kind::Map; };
  if (row.items.size() == 1 && row.items[0].kind == Value::Kind::List && !row.items[0].items.empty() &&
      std::ranges::all_of(row.items[0].items, is_object))
    throw BadRow(
        fmt::format("the only column, '{}', is a list of {} objects; if these are the rows, the file must be "
                    "that list alone",
                    config::shown(row.names[0]), row.items[0].items.size()));
  throw BadRow(fmt::format(
      "expected the columns 'prompt, chosen, rejected' or 'chosen, rejected' (texts or messages), 'prompt, "
      "responses' with 'scores' or 'ranking', 'prompt, completion, label' (KTO), or for SFT 'prompt, "
      "completion', "
      "'messages' or 'text'; got: {}; data.columns={{{}}} maps other names",
      config::shown(fmt::format("{}", fmt::join(row.names, ", "))), mapping_for(row)));
}

// Throws BadRow for a row that fits several forms, because the user must choose one.
[[noreturn]] void refuse_ambiguous(const Columns& columns, const std::vector<Form>& forms) {
  std::vector<std::string> names;
  for (const Form form : forms) {
    std::vector<std::string> needed;
    for (const std::string& ours : columns_of(form).needed) needed.push_back(columns.name_of(ours));
    names.push_back(fmt::format("'{}'", config::shown(fmt::format("{}", fmt::join(needed, ", ")))));
  }
  throw BadRow(fmt::format(
      "the row can be read in {} ways, by its columns {}; choose by ignoring the others: "
      "data.columns={{{}: {}}}",
      forms.size(), fmt::join(names, " or "), columns_of(forms.back()).needed.front(), kNoColumn));
}

}  // namespace

std::string Columns::name_of(const std::string& ours) const {
  if (const auto mapped = names_.find(ours); mapped != names_.end()) return mapped->second;
  // A column of the file that data.columns maps has only that meaning.
  const auto is_free = [&](std::string_view column) {
    return row_.find(column) &&
           std::ranges::none_of(names_, [&](const auto& mapping) { return mapping.second == column; });
  };
  if (is_free(ours)) return ours;
  for (const Alias& alias : kAliases)
    if (alias.ours == ours && is_free(alias.other)) return std::string(alias.other);
  return std::string(kNoColumn);
}

const Value* Columns::find(const std::string& ours) const {
  const std::string column = name_of(ours);
  return column == kNoColumn ? nullptr : row_.find(column);
}

std::vector<Form> Columns::candidates() const {
  const bool has_prompt = has("prompt") || has("question") || has("messages");
  const auto fits = [&](Form form) {
    switch (form) {
      case Form::List: return has_prompt && (has("scores") || has("ranking"));
      case Form::Label:
      case Form::Completion: return has_prompt;
      // A text next to other parts of an example is a mistake, because the response would be ambiguous.
      case Form::Text: return !has("prompt") && !has("question") && !has("chosen") && !has("responses");
      default: return true;
    }
  };
  std::vector<Form> preferences, others;
  for (const FormColumns& columns : form_table()) {
    const bool complete =
        std::ranges::all_of(columns.needed, [&](const std::string& ours) { return has(ours); });
    if (complete && fits(columns.form))
      (is_preference(columns.form) ? preferences : others).push_back(columns.form);
  }
  return preferences.empty() ? others : preferences;
}

Form Columns::form() const {
  const std::vector<Form> forms = candidates();
  if (forms.empty()) refuse_columns(row_);
  if (forms.size() > 1) refuse_ambiguous(*this, forms);
  return forms.front();
}

bool Columns::asks() const { return !has("prompt") && !names_.contains("prompt") && has("question"); }

bool Columns::is_chat(Form form) const {
  if (form == Form::Chat) return true;
  if (asks()) return true;
  const auto holds_messages = [&](const std::string& ours) {
    const Value* const value = find(ours);
    if (!value) return false;
    const bool is_list = ours == "responses" && value->kind == Value::Kind::List && !value->items.empty();
    return is_messages(is_list ? value->items.front() : *value);
  };
  std::vector<std::string> turns = columns_of(form).needed;
  turns.insert(turns.end(), {"prompt", "context"});
  return std::ranges::any_of(turns, holds_messages);
}

std::vector<std::string> Columns::used() const {
  const Form form = this->form();
  const FormColumns& columns = columns_of(form);
  std::vector<std::string> all = columns.needed;
  all.insert(all.end(), columns.optional.begin(), columns.optional.end());
  all.push_back("prompt");
  if (is_chat(form)) {
    all.insert(all.end(), {"system", "tools", "chat_template_kwargs"});
    if (!has("prompt")) all.insert(all.end(), {"question", "input", "context", "messages"});
  }
  if (has("scores")) std::erase(all, "ranking");
  std::vector<std::string> used;
  for (const std::string& ours : all)
    if (has(ours)) used.push_back(name_of(ours));
  return used;
}

void ColumnUse::add(const Value& row) {
  if (row.names == last_) return;  // true for nearly every row of a file
  last_ = row.names;
  seen_.insert(row.names.begin(), row.names.end());
  try {
    const Columns columns(row, names_);
    const Form form = columns.form();
    const std::vector<std::string> used = columns.used();
    used_.insert(used.begin(), used.end());
    const bool is_chat = columns.is_chat(form);
    if (is_chat || form != Form::Pair)
      forms_.insert(fmt::format("{}{}", columns_of(form).meaning,
                                is_chat && form != Form::Chat ? ", as conversations" : ""));
  } catch (const BadRow&) {
    // The reader of the row reports it.
  }
}

std::string ColumnUse::problem() const {
  if (seen_.empty()) return "";  // a file without rows is reported elsewhere
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
