// How long the data of a run is, for its plan: what src/data counts, as src/plan wants it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/examples.h"
#include "plan/lengths.h"

namespace dpo::commands {

struct CountedData {
  std::optional<plan::Lengths> lengths;  // nothing where the data is not on this machine, or not asked for
  std::vector<std::string> notes;        // what is worth telling of its rows
};

// Looks at the data of a run without writing anything: from the token cache where that has it, else rows are
// counted and a sample of them is tokenized. Data that is here and cannot be read is a UserError.
CountedData count_data(const config::RunConfig& run);

// Of data that is tokenized: the examples that there are, as their policies leave them.
plan::Lengths lengths_of(const data::Examples& train, const data::Examples* test);

}  // namespace dpo::commands
