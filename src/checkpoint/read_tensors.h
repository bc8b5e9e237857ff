#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "checkpoint/formats/weight_files.h"
#include "checkpoint/load.h"

namespace dpo::checkpoint {

// Converts between float and byte dtypes. name_of_scalar accepts only float dtypes.
at::ScalarType scalar_type_of(Dtype dtype);
Dtype dtype_of(at::ScalarType type);
std::string name_of_scalar(at::ScalarType type);  // "bfloat16"

// Destination of elements of a stored tensor: those in `ranges`, one range after another, go into `values`.
// `values` is flat and on any device. Its dtype is any float dtype, or bytes if the stored dtype is bytes.
struct Destination {
  const StoredTensor* source = nullptr;
  at::Tensor values;
  std::vector<model::Range> ranges;
};

// Reads all destinations with several threads, in file order. Only the requested elements of a contiguous
// tensor are read. `progress` counts the bytes read.
void read_tensors(const WeightFiles& files, std::vector<Destination> destinations,
                  const ProgressCallback& progress);

// Returns true if two stored tensors of one shape have the same values.
bool are_equal(const WeightFiles& files, const StoredTensor& a, const StoredTensor& b);

}  // namespace dpo::checkpoint
