// A product as cuBLASLt describes it.
#pragma once

#include <vector>

#include "ops/cuda/cublas_lt.h"
#include "ops/cuda/products.h"

namespace dpo::cuda {

constexpr std::uint32_t kProductAlignment = 16;  // bytes, of matrices and of their rows

// Matrices are column-major there, so that each of ours is its transpose, and out^T = b^T a^T. The product
// must outlive it.
class ProductCall {
 public:
  ProductCall(const CublasLt& lt, const Product& product);

  // In the order in which cuBLASLt expects them to be fast.
  std::vector<cublasLtMatmulAlgo_t> algorithms(cublasLtHandle_t handle);

  // False if cuBLASLt refuses it. `workspace` has kProductWorkspace bytes.
  bool run(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm, void* workspace, Stream stream);

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t name, const T& value);
  // A column-major matrix.
  void describe(cublasLtMatrixLayoutOpaque_t& layout, Type type, std::int64_t rows, std::int64_t columns,
                std::int64_t stride);
  // One that is x, or whose transpose is.
  void describe(cublasLtMatrixLayoutOpaque_t& layout, const Operand& x, std::int64_t rows,
                std::int64_t columns);
  void check(cublasStatus_t status) { is_valid_ = is_valid_ && status == CUBLAS_STATUS_SUCCESS; }

  const CublasLt& lt_;
  const Product& product_;
  bool is_valid_ = true;  // false if the library's structs are larger than those of its header
  cublasLtMatmulDescOpaque_t operation_ = {};
  cublasLtMatrixLayoutOpaque_t left_ = {}, right_ = {}, out_ = {};
};

}  // namespace dpo::cuda
