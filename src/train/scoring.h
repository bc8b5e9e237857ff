#pragma once

#include <vector>

#include "data/examples.h"
#include "data/forest.h"
#include "loss/loss.h"
#include "train/records.h"

namespace dpo::train {

// The comparisons of a forest's examples, which are some of the batch's, as the loss wants them. Unpaired
// losses get one comparison for each response of a pair.
std::vector<loss::Comparison> comparisons_of(const data::Forest& forest, const ExampleBatch& batch,
                                             const loss::Options& options);

// What the loss sees of a forest's responses.
std::vector<loss::Score> scores_of(const data::Forest& forest, const std::vector<double>& policy,
                                   const std::vector<double>& reference);

// The records of a forest's examples; `losses` are those of its comparisons, or empty where they are not
// known.
std::vector<Record> records_of(const data::Forest& forest, const std::vector<loss::Score>& scores,
                               const std::vector<double>& losses, const ExampleBatch& batch);

// Margins in the data that the loss would leave out are a UserError.
void check_margins(const data::Examples& examples, const loss::Options& options);

}  // namespace dpo::train
