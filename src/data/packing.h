#pragma once

#include <cstdint>
#include <span>

#include "data/example.h"

namespace dpo::data {

// What packing saves, summed over batches.
struct PackingStatistics {
  std::int64_t examples = 0;
  std::int64_t computed = 0;  // tokens of the forests
  std::int64_t repeated = 0;  // tokens if every response carried its own prompt
  std::int64_t padded =
      0;  // tokens of the padded batches: every sequence as long as the longest of its batch

  void add(std::span<const Example> batch);

  double padding_avoided() const { return ratio(padded - repeated); }
  double sharing_avoided() const { return ratio(repeated - computed); }
  double times_saved() const { return ratio(padded); }  // padded tokens for each computed one

 private:
  double ratio(std::int64_t tokens) const {
    return computed == 0 ? 0 : static_cast<double>(tokens) / static_cast<double>(computed);
  }
};

}  // namespace dpo::data
