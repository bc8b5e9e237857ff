// Reads matrices that bitsandbytes quantized in the files of a model.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/formats/weight_files.h"
#include "checkpoint/read_tensors.h"
#include "ops/quantized_matrix.h"

namespace dpo::checkpoint {

// A quantized matrix: the tensors that it consists of.
struct QuantizedTensor {
  ops::QuantizedDtype dtype{};
  std::vector<std::int64_t> shape;
  StoredTensor codes;   // as bytes
  StoredTensor scales;  // float32, or bytes if they are nested
  // The scales of nf4 if they are 8-bit themselves: map[scale] * scales[i / 256] + offset.
  struct Nested {
    StoredTensor scales;  // float32
    std::vector<float> map;
    float offset = 0;
  };
  std::optional<Nested> nested = {};

  std::int64_t bytes() const;  // in the files
};

// The tensors of a model's files, by their names there. The tensors that make up a quantized matrix appear as
// one float32 tensor with the shape of the matrix.
struct StoredModel {
  std::vector<StoredTensor> tensors;
  std::map<std::size_t, QuantizedTensor> quantized;  // by index in `tensors`
};

// Finds the quantized matrices by name and checks everything except their numbers. Throws a UserError for a
// matrix that cannot be read.
StoredModel find_quantized(const WeightFiles& files);

// A quantized matrix that is being read.
class QuantizedRead {
 public:
  QuantizedRead(const QuantizedTensor& from, at::Device device);

  void add_to(std::vector<Destination>& destinations) const;

  // Returns the matrix with the codes and scales of the file. Must be called after they have been read.
  ops::QuantizedMatrix matrix() const;

 private:
  const QuantizedTensor* from_;
  at::Tensor codes_, scales_, nested_;
};

}  // namespace dpo::checkpoint
