// What `dpo data` says about the data of a run.
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

// One JSON object; `lengths` is in the form of configs/lengths, for a run that has both splits.
std::string to_json(const std::vector<SplitReport>& splits, const text::Tokenizer& tokenizer);

// The first `count` examples of the order as JSON lines, with `tokens` also their ids as the model gets them.
// Without a tokenizer (`examples` null) none is left out for its tokens. `notes`: what is worth telling of
// the rows.
std::string order_lines(const config::RunConfig& config, Split split, std::int64_t count, bool tokens,
                        const Examples* examples, std::vector<std::string>& notes);

}  // namespace dpo::data
