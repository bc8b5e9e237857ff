// Lengths of a run's data for its plan: counted with src/data, passed on as src/plan needs them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/examples.h"
#include "plan/lengths.h"

namespace dpo::commands {

// Every n-th prompt of a source.
struct SampledSource {
  data::Source source;
  std::size_t step = 1;  // n
  std::vector<data::PromptText> prompts;
};

struct CountedData {
  std::optional<plan::Lengths> lengths;  // nullopt if plan.lengths is set or the data is not on this machine
  std::vector<std::string> notes;        // about its rows, for the user
  std::vector<SampledSource> sample;     // that was tokenized; empty if the token cache has all of the data
};

// Takes the counts from the token cache if it has the data, else counts rows and tokenizes a sample of them.
// Downloads the tokenizer if it is missing; writes nothing else. Data that is on this machine and cannot be
// read is a UserError.
CountedData count_data(const config::RunConfig& run);

// Counts again what is cut, if these limits are others than those that the data were counted for.
void count_cuts(CountedData& counted, const config::RunConfig& run);

// Of tokenized data: exactly the examples of the run.
plan::Lengths lengths_of(const data::Examples& train, const data::Examples* test,
                         const config::RunConfig& run);

}  // namespace dpo::commands
