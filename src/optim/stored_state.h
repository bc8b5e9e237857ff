// Stores and loads weights and optimizer state: in float32, whole or in two parts, in 16 bits, or as 8-bit
// codes.
#pragma once

#include <optional>
#include <vector>

#include "config/choices.h"
#include "ops/fused.h"

namespace dpo::optim {

using ops::fused::StoredArray;

// Returns the numbers that 8-bit codes stand for, ascending: bitsandbytes' dynamic map, with seven decades
// and more codes in the larger ones. Without signs each decade has twice as many.
at::Tensor dynamic_map(bool is_signed);

// Storage format of an array.
struct StateFormat {
  at::ScalarType dtype = at::kFloat;  // at::kByte: 8-bit codes
  bool is_signed = true;              // for codes only
};
// Returns the dtype of the state, which is that of the weights if `asked` is null.
at::ScalarType state_dtype(std::optional<config::OptimizerState> asked, at::ScalarType weights);

// Makes an array of `count` zeros. `on_host`: in host memory, from where they are copied to the device.
StoredArray make_state(std::int64_t count, const StateFormat& format, at::Device device,
                       bool on_host = false);

// Return elements [from, from + count) of arrays. Of codes the range must be whole groups.
StoredArray part_of(const StoredArray& array, std::int64_t from, std::int64_t count);
std::vector<StoredArray> parts_of(const std::vector<StoredArray>& arrays, std::int64_t from,
                                  std::int64_t count);

// Returns the values in float32: those of a float32 array themselves, others as a copy.
at::Tensor loaded(const StoredArray& array);

// True if storing rounds with random bits.
bool is_rounded(const StoredArray& array);

// Stores the changed values that loaded() returned. Rounds to 16 bits with the random bits of a lane.
void store(StoredArray& array, const at::Tensor& exact, const at::Tensor& bits, int lane);

}  // namespace dpo::optim
