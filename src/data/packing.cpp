#include "data/packing.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "data/trees.h"

namespace dpo::data {

void PackingStatistics::add(std::span<const Example> batch) {
  std::vector<std::int64_t> all(batch.size());
  std::iota(all.begin(), all.end(), 0);
  for (const Tree& tree : grow_trees(batch, all)) computed += tree.tokens();
  std::int64_t sequences = 0, longest = 0;
  for (const Example& example : batch)
    for (const std::span<const Token> response : example.responses) {
      const auto length = static_cast<std::int64_t>(example.prompt.size() + response.size());
      repeated += length;
      longest = std::max(longest, length);
      ++sequences;
    }
  padded += sequences * longest;
  examples += static_cast<std::int64_t>(batch.size());
}

}  // namespace dpo::data
