#pragma once

#include <string_view>

#include "data/rows.h"

namespace fuzz::rows {

using Reader = void (*)(const std::filesystem::path& file, const dpo::data::TakeRows& take);

// Reads the input as a file of rows and aborts if a check fails. Returns true if a row was accepted.
bool try_reader(Reader read, std::string_view input);

}  // namespace fuzz::rows
