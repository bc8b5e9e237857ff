// Matrices that bitsandbytes quantized, in the files of a model.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/formats/weight_files.h"
#include "checkpoint/read_tensors.h"
#include "ops/small_matrix.h"

namespace dpo::checkpoint {

// One of them: the tensors that it consists of.
struct QuantizedTensor {
  ops::SmallDtype dtype{};
  std::vector<std::int64_t> shape;
  StoredTensor codes;   // as bytes
  StoredTensor scales;  // float32, or bytes if they are nested
  // Scales of nf4 that have 8 bits themselves: map[scale] * scales[i / 256] + offset.
  struct Nested {
    StoredTensor scales;  // float32
    std::vector<float> map;
    float offset = 0;
  };
  std::optional<Nested> nested = {};

  std::int64_t bytes() const;  // in the files
};

// The tensors of a model's files as a table names them: what belongs to a quantized matrix is one tensor of
// its shape.
struct StoredModel {
  std::vector<StoredTensor> tensors;
  std::map<std::size_t, QuantizedTensor> quantized;  // by the number of the tensor
};

// Finds the quantized matrices by names and checks everything except their numbers. What cannot be read is a
// UserError.
StoredModel find_quantized(const WeightFiles& files);

// A quantized matrix that is being read.
class QuantizedRead {
 public:
  QuantizedRead(const QuantizedTensor& from, at::Device device);

  void add_to(std::vector<Destination>& destinations) const;

  // With the codes and scales of the file, once they have been read.
  ops::SmallMatrix matrix() const;

 private:
  const QuantizedTensor* from_;
  at::Tensor codes_, scales_, nested_;
};

}  // namespace dpo::checkpoint
