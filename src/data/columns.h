// Rows of your own data, read by the names of their columns.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/rows.h"
#include "data/texts.h"

namespace dpo::data {

// Maps our names of columns (prompt, chosen, rejected, responses, scores, ranking, completion, label, text,
// weight, margin) to the file's, or to `none`: such a column is ignored even if the file has it.
using ColumnNames = std::map<std::string, std::string>;
inline constexpr std::string_view kNoColumn = "none";
void add_row_by_columns(Value&& row, const ColumnNames& names, PromptTexts& texts);

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

 private:
  const ColumnNames& names_;
  std::vector<std::string> last_;  // the names of the previous row
  std::set<std::string> seen_, used_;
};

}  // namespace dpo::data
