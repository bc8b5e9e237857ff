// The output of `dpo data` about the data of a run.
#pragma once

#include <string>
#include <vector>

#include "config/run_config.h"
#include "data/examples.h"
#include "data/statistics.h"

namespace dpo::data {

struct SplitReport {
  std::string name;  // "train", "test"
  Examples examples;
  SplitLengths lengths;
  PackingStatistics packing;
  std::int64_t batch_size = 0;
  std::vector<std::uint32_t> first;  // the first examples of the order
};

SplitReport make_report(Examples examples, Split split, const config::RunConfig& config);

std::string to_text(const std::vector<SplitReport>& splits, const text::Tokenizer& tokenizer);

// Formats one JSON object. If there are both splits, `lengths` has the format of configs/lengths.
std::string to_json(const std::vector<SplitReport>& splits, const text::Tokenizer& tokenizer);

// Selects the examples to show.
struct OrderRequest {
  Split split = Split::Train;
  std::int64_t count = 0;
  bool tokens = false;      // also print token ids after truncation
  bool fits_batch = false;  // reduce the batch size to the number of examples if there are fewer
};

// Returns the first examples of the order as JSON lines. Without tokenized `examples` (null), no example is
// dropped because of its tokens. Adds notes for the user to `notes`.
std::string order_lines(config::RunConfig config, const OrderRequest& request, const Examples* examples,
                        std::vector<std::string>& notes);

}  // namespace dpo::data
