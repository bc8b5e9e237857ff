#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "checkpoint/formats/weight_files.h"
#include "checkpoint/load.h"

namespace dpo::checkpoint {

at::ScalarType scalar_type_of(Dtype dtype);       // a float one
Dtype dtype_of(at::ScalarType type);              // a float one
std::string name_of_scalar(at::ScalarType type);  // "bfloat16"

// A stored tensor and where its numbers go: contiguous, of the same shape, of any float dtype and device.
struct Destination {
  const StoredTensor* source = nullptr;
  at::Tensor tensor;
};

// Reads all of them by several threads, in the order of the disk, each straight to its place.
void read_tensors(const WeightFiles& files, std::vector<Destination> destinations, const Progress& progress);

// Whether two stored tensors of one shape hold the same numbers.
bool are_equal(const WeightFiles& files, const StoredTensor& a, const StoredTensor& b);

}  // namespace dpo::checkpoint
