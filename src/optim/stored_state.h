// Weights and optimizer state as they are stored: in float32, whole or in two parts, in 16 bits or as codes
// of 8 bits.
#pragma once

#include <optional>
#include <vector>

#include "config/choices.h"
#include "ops/fused.h"

namespace dpo::optim {

using ops::fused::StoredArray;

// The numbers that codes of 8 bits stand for, ascending: bitsandbytes' dynamic map, with seven decades and
// more codes in the larger ones. Without signs each decade has twice as many.
at::Tensor dynamic_map(bool is_signed);

// How an array is stored.
struct StateFormat {
  at::ScalarType dtype = at::kFloat;  // at::kByte: codes
  bool is_signed = true;              // of codes
};
// `asked` null: as the weights are.
at::ScalarType state_dtype(std::optional<config::OptimizerState> asked, at::ScalarType weights);

// `count` zeros; `on_host`: in host memory, from where they are copied to the device.
StoredArray make_state(std::int64_t count, const StateFormat& format, at::Device device,
                       bool on_host = false);

// Elements [from, from + count) of an array; of codes, whole groups.
StoredArray part_of(const StoredArray& array, std::int64_t from, std::int64_t count);
std::vector<StoredArray> parts_of(const std::vector<StoredArray>& arrays, std::int64_t from,
                                  std::int64_t count);

// The values in float32: those of a float32 array themselves, others as a copy.
at::Tensor loaded(const StoredArray& array);

// Whether storing rounds with random bits.
bool is_rounded(const StoredArray& array);

// Stores what loaded() has returned after it was changed; 16 bits are rounded with the random bits of a lane.
void store(StoredArray& array, const at::Tensor& exact, const at::Tensor& bits, int lane);

}  // namespace dpo::optim
