#pragma once

#include "base/balance.h"
#include "model/spec/table.h"

namespace dpo::model {

// Attention runs at this share of the rate of matmuls, fitted to updates on an H200.
constexpr double kAttentionRate = 1.0 / 3;

// Returns the costs that a batch is divided by, in multiply-adds of matmuls.
UnitCosts unit_costs(const TensorTable& table, const ModelShape& shape);

}  // namespace dpo::model
