#include "model/spec/cost.h"

#include <algorithm>
#include <cmath>

namespace dpo::model {

UnitCosts unit_costs(const TensorTable& table, const ModelShape& shape) {
  std::int64_t token = 0, layers = 0;
  for (const Block& block : table.blocks)
    if (block.kind == BlockKind::layer) {
      token += block.matmul_count();
      ++layers;
    }
  // The scores of queries and keys, and the sums of values.
  const double attended = 2 * static_cast<double>(shape.query_width() * layers) / kAttentionRate;
  return {std::max<std::int64_t>(1, token), table.head_matmul_count, std::llround(attended)};
}

}  // namespace dpo::model
