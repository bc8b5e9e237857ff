#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dpo {

// Names and values in the order of the line.
using NamedNumbers = std::vector<std::pair<std::string, double>>;

// Reads the numbers of a line such as {"loss": 0.5, "step": 3} and ignores other values. Returns false if the
// line is not a JSON object. It builds no tree and reuses `numbers`, because a run has a line for each of its
// updates.
bool read_numbers(std::string_view line, NamedNumbers& numbers);

}  // namespace dpo
