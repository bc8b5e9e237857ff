#pragma once

#include <string_view>

// The readers of rows; the names of their files' endings.
enum class RowFormat { JsonLines, JsonArray, Csv };

// Reads the input as a file of that format and aborts if a property does not hold. True if a row was
// accepted.
bool try_rows(RowFormat format, std::string_view input);
