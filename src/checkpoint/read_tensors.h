#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "checkpoint/formats/weight_files.h"
#include "checkpoint/load.h"

namespace dpo::checkpoint {

at::ScalarType scalar_type_of(Dtype dtype);       // a float one
Dtype dtype_of(at::ScalarType type);              // a float one
std::string name_of_scalar(at::ScalarType type);  // "bfloat16"

// Elements of a stored tensor and where they go: those that `runs` name, one run behind the other, into
// `numbers`, which is flat, of any float dtype and device.
struct Destination {
  const StoredTensor* source = nullptr;
  at::Tensor numbers;
  std::vector<model::Run> runs;
};

// Reads all of them by several threads, in the order of the disk, each straight to its place. Of a tensor
// that is stored contiguously, nothing but these elements is read; `progress` counts the bytes that are.
void read_tensors(const WeightFiles& files, std::vector<Destination> destinations, const Progress& progress);

// Whether two stored tensors of one shape hold the same numbers.
bool are_equal(const WeightFiles& files, const StoredTensor& a, const StoredTensor& b);

}  // namespace dpo::checkpoint
