// Plans the FP8 matmuls of layers (fp8=true).
#pragma once

#include "plan/inputs.h"

namespace dpo::plan {

// Returns the parameters of a layer whose matmuls are in FP8: those of matrices with sizes that 16 divides. 0
// without fp8.
double fp8_parameters(const Workload& w, const model::Block& block);

// Returns the FLOP/s of FP8 matmuls on a device, by the ratio of its peaks. Measured on an H200 only.
double fp8_matmul_flops(const Device& device);

// Returns the seconds in which a layer's operands are quantized: tokens and weights of a forward pass,
// gradients and weights of a backward pass.
double quantizing_seconds(const Workload& w, const model::Block& block, bool backward);

// Returns the bytes of the operands of one FP8 matmul. Nothing is kept from one matmul to the next.
double fp8_operand_bytes(const Workload& w);

}  // namespace dpo::plan
