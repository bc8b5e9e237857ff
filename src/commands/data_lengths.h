// Counts the lengths of a run's data with src/data and converts them for plans (src/plan).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/examples.h"
#include "plan/lengths.h"

namespace dpo::commands {

// Every `step`-th prompt of a source.
struct SampledSource {
  data::Source source;
  std::size_t step = 1;
  std::vector<data::PromptText> prompts;
};

struct CountedData {
  std::optional<plan::Lengths> lengths;  // nullopt if plan.lengths is set or the data is not on this machine
  std::vector<std::string> notes;        // about the data's rows, for the user
  std::vector<SampledSource> sample;     // tokenized prompts; empty if the token cache has all of the data
};

// Takes the counts from the token cache if it has the data, else counts rows and tokenizes a sample.
// Downloads the tokenizer if it is missing; writes nothing else. Throws a UserError if data on this machine
// cannot be read.
CountedData count_data(const config::RunConfig& run);

// Counts the truncated texts again if these limits differ from those that the data was counted for.
void count_cuts(CountedData& counted, const config::RunConfig& run);

// Returns the lengths of tokenized data, for exactly the examples of the run.
plan::Lengths lengths_of(const data::Examples& train, const data::Examples* test,
                         const config::RunConfig& run);

}  // namespace dpo::commands
