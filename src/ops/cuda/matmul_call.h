// Describes a matmul to cuBLASLt.
#pragma once

#include <vector>

#include "ops/cuda/cublas_lt.h"
#include "ops/cuda/matmuls.h"

namespace dpo::cuda {

constexpr std::uint32_t kMatmulAlignment = 16;  // bytes; of matrices and of their rows

// One matmul as cuBLASLt sees it. cuBLASLt is column-major, so it sees each of our matrices transposed and
// computes out^T = b^T a^T. `matmul` must outlive this object.
class MatmulCall {
 public:
  MatmulCall(const CublasLt& lt, const Matmul& matmul);

  // Returns algorithms in the order in which cuBLASLt expects them to be fast.
  std::vector<cublasLtMatmulAlgo_t> algorithms(cublasLtHandle_t handle);

  // Returns false if cuBLASLt rejects the algorithm. `workspace` has kMatmulWorkspace bytes.
  bool run(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm, void* workspace, Stream stream);

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t name, const T& value);
  // Describes a column-major matrix.
  void describe(cublasLtMatrixLayoutOpaque_t& layout, Type type, std::int64_t rows, std::int64_t columns,
                std::int64_t stride);
  // Describes the stored matrix of x, which is [rows, columns] or, if x is transposed, [columns, rows].
  void describe(cublasLtMatrixLayoutOpaque_t& layout, const Operand& x, std::int64_t rows,
                std::int64_t columns);
  void check(cublasStatus_t status) { is_valid_ = is_valid_ && status == CUBLAS_STATUS_SUCCESS; }

  const CublasLt& lt_;
  const Matmul& matmul_;
  bool is_valid_ = true;  // false if the library's structs are larger than those of its header
  cublasLtMatmulDescOpaque_t operation_ = {};
  cublasLtMatrixLayoutOpaque_t left_ = {}, right_ = {}, out_ = {};
};

}  // namespace dpo::cuda
