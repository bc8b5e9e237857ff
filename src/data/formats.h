// How a row of each known data set adds to the prompts read so far. A row with missing columns is a BadRow.
#pragma once

#include <string>
#include <string_view>

#include "data/rows.h"
#include "data/texts.h"

namespace dpo::data {

void add_hh_row(Value&& row, PromptTexts& texts);
void add_shp_row(Value&& row, PromptTexts& texts);
void add_se_row(Value&& row, PromptTexts& texts);

// A column of a row; another type is a BadRow.
const std::string& text_of(const Value& row, std::string_view column);
double number_of(const Value& row, std::string_view column);

// The text of HTML as the original extracts it: of top-level paragraphs and code.
std::string strip_html(std::string_view html);

}  // namespace dpo::data
