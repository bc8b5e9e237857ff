#pragma once

#include <vector>

#include "data/forest.h"
#include "loss/loss.h"
#include "train/records.h"

namespace dpo::train {

// The comparisons of a forest's examples, as the loss wants them. Unpaired losses get one comparison for each
// response of a pair.
std::vector<loss::Comparison> comparisons_of(const data::Forest& forest, const loss::Options& options);

// What the loss sees of a forest's responses.
std::vector<loss::Score> scores_of(const data::Forest& forest, const std::vector<double>& policy,
                                   const std::vector<double>& reference);

// The records of a forest's examples; `losses` are those of its comparisons.
std::vector<Record> records_of(const data::Forest& forest, const std::vector<loss::Score>& scores,
                               const std::vector<double>& losses, std::span<const std::uint32_t> numbers);

}  // namespace dpo::train
