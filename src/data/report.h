// What `dpo data` prints about the data of a run.
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

// One JSON object; if there are both splits, `lengths` is as in configs/lengths.
std::string to_json(const std::vector<SplitReport>& splits, const text::Tokenizer& tokenizer);

// Selects the examples to show.
struct OrderRequest {
  Split split = Split::Train;
  std::int64_t count = 0;
  bool tokens = false;      // also their ids after truncation
  bool fits_batch = false;  // a batch is not larger than the data
};

// The first examples of the order as JSON lines. Without a tokenizer (`examples` null) no example is dropped
// because of its tokens. Adds to `notes` for the user.
std::string order_lines(config::RunConfig config, const OrderRequest& request, const Examples* examples,
                        std::vector<std::string>& notes);

}  // namespace dpo::data
