// Matrix products of layers in 8-bit floats (fp8=true).
#pragma once

#include "plan/inputs.h"

namespace dpo::plan {

// Parameters of a layer whose products are in 8 bits: of matrices with sizes that 16 divides. 0 without fp8.
double fp8_parameters(const Workload& w, const model::Block& block);

// FLOP/s of such products on a device, by the ratio of its peaks. Measured on an H200 only.
double fp8_product_flops(const Device& device);

// Seconds in which a layer's operands are quantized: tokens and weights of a forward pass, gradients and
// weights of a backward one.
double quantizing_seconds(const Workload& w, const model::Block& block, bool backward);

// Bytes of the operands of one product in 8 bits; nothing is kept from one product to the next.
double quantized_bytes(const Workload& w);

}  // namespace dpo::plan
