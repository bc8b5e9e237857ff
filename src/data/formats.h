// Readers of the known data sets. Each adds a row to the prompts read so far, and throws BadRow if columns
// are missing.
#pragma once

#include <string>
#include <string_view>

#include "data/rows.h"
#include "data/texts.h"

namespace dpo::data {

void add_hh_row(Value&& row, PromptTexts& texts);
void add_shp_row(Value&& row, PromptTexts& texts);
void add_se_row(Value&& row, PromptTexts& texts);

// Return a column of a row. Throw BadRow if it has another type.
const std::string& text_of(const Value& row, std::string_view column);
double number_of(const Value& row, std::string_view column);

// Extracts the text of HTML as the original does: the text of top-level paragraphs and code.
std::string strip_html(std::string_view html);

}  // namespace dpo::data
