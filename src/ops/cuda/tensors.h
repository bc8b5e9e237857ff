// Converts tensors to the types of the kernels.
#pragma once

#include <optional>

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "ops/cuda/kernels.h"

namespace dpo::cuda {

inline std::optional<Type> type_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat: return Type::float32;
    case at::kBFloat16: return Type::bfloat16;
    case at::kHalf: return Type::float16;
    default: return std::nullopt;
  }
}

inline std::optional<Type> type_of(const at::Tensor& tensor) { return type_of(tensor.scalar_type()); }

// Holds the stream of a tensor's device, and makes that device the current one while it exists.
class Launch {
 public:
  explicit Launch(const at::Tensor& tensor)
      : guard_(tensor.device()), stream_(c10::cuda::getCurrentCUDAStream(tensor.device().index()).stream()) {}
  operator Stream() const { return stream_; }

 private:
  c10::cuda::CUDAGuard guard_;
  Stream stream_;
};

}  // namespace dpo::cuda
