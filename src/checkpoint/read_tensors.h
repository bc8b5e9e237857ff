#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "checkpoint/formats/weight_files.h"
#include "checkpoint/load.h"

namespace dpo::checkpoint {

// For float dtypes and bytes.
at::ScalarType scalar_type_of(Dtype dtype);
Dtype dtype_of(at::ScalarType type);
std::string name_of_scalar(at::ScalarType type);  // "bfloat16"

// Where elements of a stored tensor go: those in `ranges`, one range after another, into `values`, which is
// flat and on any device, of any float dtype or, like the stored ones, bytes.
struct Destination {
  const StoredTensor* source = nullptr;
  at::Tensor values;
  std::vector<model::Range> ranges;
};

// Reads all destinations with several threads, in file order. Of a contiguous tensor only these elements are
// read; `progress` counts the bytes read.
void read_tensors(const WeightFiles& files, std::vector<Destination> destinations,
                  const ProgressCallback& progress);

// Whether two stored tensors of one shape hold the same values.
bool are_equal(const WeightFiles& files, const StoredTensor& a, const StoredTensor& b);

}  // namespace dpo::checkpoint
