// Rows of your own data, read by the names of their columns.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/choices.h"
#include "data/rows.h"
#include "data/texts.h"

namespace dpo::data {

// Maps our names of columns (prompt, chosen, rejected, ...) to the file's, or to `none`: such a column is
// ignored even if the file has it.
using ColumnNames = std::map<std::string, std::string>;
inline constexpr std::string_view kNoColumn = "none";

// What a row has: answers that are compared, one that is labelled, or one to imitate.
enum class Form {
  Pair,        // chosen, rejected
  List,        // responses with scores or ranking
  Comparison,  // response1, response2, overall_preference
  Label,       // completion, label
  Completion,  // completion
  Chat,        // messages: a whole conversation
  Text,        // text
};

// The columns of a row, by our names.
class Columns {
 public:
  Columns(const Value& row, const ColumnNames& names) : row_(row), names_(names) {}

  // A column as data.columns maps it, else by our name or another usual one; null if the row does not have
  // it.
  const Value* find(const std::string& ours) const;
  bool has(const std::string& ours) const { return find(ours) != nullptr; }
  std::string name_of(const std::string& ours) const;  // in the file; kNoColumn if the row does not have it

  // The form of the row. One that fits several, or none, is a BadRow.
  Form form() const;

  // Whether a row of this form is a conversation, which a chat template renders: columns that are messages,
  // or a question or an instruction in place of a prompt.
  bool is_chat(Form form) const;

  // The columns of its form, in the file's names.
  std::vector<std::string> used() const;

  const Value& row() const { return row_; }

 private:
  std::vector<Form> candidates() const;
  bool asks() const;  // a question in place of a prompt

  const Value& row_;
  const ColumnNames& names_;
};

// What a row says, as text or as messages.
PromptText read_by_columns(const Value& row, const ColumnNames& names, config::TrainOn train_on);

// Where the prompt of two transcripts ends: in their common prefix, after the last start of an assistant's
// turn if there is one, otherwise before the last word that is not complete in both.
std::size_t prompt_end(std::string_view chosen, std::string_view rejected);

// Which columns the rows have, and which of them are used.
class ColumnUse {
 public:
  explicit ColumnUse(const ColumnNames& names) : names_(names) {}

  void add(const Value& row);

  // A message about a column that data.columns names and no row has; empty if there is none.
  std::string problem() const;

  // Columns that are not used, except those that data.columns maps to none.
  std::vector<std::string> unused() const;

  // The forms of the rows in words, where they are not the usual pairs of texts.
  const std::set<std::string>& forms() const { return forms_; }

 private:
  const ColumnNames& names_;
  std::vector<std::string> last_;  // the names of the previous row
  std::set<std::string> seen_, used_, forms_;
};

}  // namespace dpo::data
