// Reads rows of the user's own files by their column names.
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

// Maps the standard column names (prompt, chosen, rejected, ...) to the file's names, or to `none`. A column
// that is mapped to `none` is ignored even if the file has it.
using ColumnNames = std::map<std::string, std::string>;
inline constexpr std::string_view kNoColumn = "none";

// The form of a row, which its columns determine.
enum class Form {
  Pair,        // chosen, rejected
  List,        // responses with scores or ranking
  Comparison,  // response1, response2, overall_preference
  Label,       // completion, label
  Completion,  // completion
  Chat,        // messages: a whole conversation
  Text,        // text
};

// The columns of a row by their standard names.
class Columns {
 public:
  Columns(const Value& row, const ColumnNames& names) : row_(row), names_(names) {}

  // Finds a column by the name that data.columns gives it, or by its standard name or a usual alias. Returns
  // null if the row does not have it.
  const Value* find(const std::string& ours) const;
  bool has(const std::string& ours) const { return find(ours) != nullptr; }
  std::string name_of(const std::string& ours) const;  // in the file; kNoColumn if it is absent

  // Returns the form of the row. Throws BadRow if several forms fit, or none.
  Form form() const;

  // Returns whether a row of this form is a conversation, which a chat template renders. Its columns are
  // messages, or it has a question or an instruction instead of a prompt.
  bool is_chat(Form form) const;

  // Returns the columns that its form uses, by the file's names.
  std::vector<std::string> used() const;

  const Value& row() const { return row_; }

 private:
  std::vector<Form> candidates() const;
  bool asks() const;  // true if the row has a question instead of a prompt

  const Value& row_;
  const ColumnNames& names_;
};

// Converts a row to text or messages.
PromptText read_by_columns(const Value& row, const ColumnNames& names, config::TrainOn train_on);

// Returns where the prompt of two transcripts ends. It ends in their common prefix: after the last start of
// an assistant's turn if there is one, otherwise before the last word that is not complete in both.
std::size_t prompt_end(std::string_view chosen, std::string_view rejected);

// Records which columns the rows have, and which of them are used.
class ColumnUse {
 public:
  explicit ColumnUse(const ColumnNames& names) : names_(names) {}

  void add(const Value& row);

  // Returns a message about a column that data.columns names and no row has, or an empty string.
  std::string problem() const;

  // Returns the columns that are not used, except those that data.columns maps to none.
  std::vector<std::string> unused() const;

  // Descriptions of the rows' forms, except for the usual pairs of texts.
  const std::set<std::string>& forms() const { return forms_; }

 private:
  const ColumnNames& names_;
  std::vector<std::string> last_;  // the names of the previous row
  std::set<std::string> seen_, used_, forms_;
};

}  // namespace dpo::data
