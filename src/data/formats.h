// What a row of each known data set means: how it changes the prompts read so far. A row that lacks something
// is a BadRow.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "data/rows.h"
#include "data/texts.h"

namespace dpo::data {

void add_hh_row(Value&& row, PromptTexts& texts);
void add_shp_row(Value&& row, PromptTexts& texts);
void add_se_row(Value&& row, PromptTexts& texts);

// A row of anyone's data; `names` maps our names of columns (prompt, chosen, rejected, responses, scores,
// ranking, weight, margin) to the file's, or to `none`: then there is no such column, whatever the file has.
using ColumnNames = std::map<std::string, std::string>;
inline constexpr std::string_view kNoColumn = "none";
void add_row_by_columns(Value&& row, const ColumnNames& names, PromptTexts& texts);

// A column of a row, of the type that is wanted.
const std::string& text_of(const Value& row, std::string_view column);
double number_of(const Value& row, std::string_view column);

// Where the prompt of two transcripts ends: the common beginning, cut behind the last mark of an assistant's
// turn if it holds one, otherwise before the last word that is not complete in both.
std::size_t prompt_end(std::string_view chosen, std::string_view rejected);

// Text of HTML as the original keeps it: paragraphs' own text and code.
std::string strip_html(std::string_view html);

}  // namespace dpo::data
