#include "ops/cuda/matmul_call.h"

#include <array>
#include <utility>

namespace dpo::cuda {
namespace {

cudaDataType_t library_type(Type type) {
  switch (type) {
    case Type::float32: break;
    case Type::bfloat16: return CUDA_R_16BF;
    case Type::float16: return CUDA_R_16F;
  }
  return CUDA_R_32F;
}

}  // namespace

template <class T>
void MatmulCall::set(cublasLtMatmulDescAttributes_t name, const T& value) {
  check(lt_.set_operation(&operation_, name, &value, sizeof value));
}

void MatmulCall::describe(cublasLtMatrixLayoutOpaque_t& layout, Type type, std::int64_t rows,
                          std::int64_t columns, std::int64_t stride) {
  check(lt_.init_layout(&layout, sizeof layout, library_type(type), static_cast<std::uint64_t>(rows),
                        static_cast<std::uint64_t>(columns), stride));
}

void MatmulCall::describe(cublasLtMatrixLayoutOpaque_t& layout, const Operand& x, std::int64_t rows,
                          std::int64_t columns) {
  if (x.transposed) std::swap(rows, columns);
  describe(layout, matmul_.type, rows, columns, x.stride);
}

MatmulCall::MatmulCall(const CublasLt& lt, const Matmul& p) : lt_(lt), matmul_(p) {
  check(lt.init_operation(&operation_, sizeof operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  set(CUBLASLT_MATMUL_DESC_TRANSA, p.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, p.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (p.bias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, library_type(p.type));
  }
  describe(left_, p.b, p.columns, p.inner);
  describe(right_, p.a, p.inner, p.rows);
  describe(out_, p.out_type, p.columns, p.rows, p.columns);
}

std::vector<cublasLtMatmulAlgo_t> MatmulCall::algorithms(cublasLtHandle_t handle) {
  constexpr int kMost = 16;
  cublasLtMatmulPreferenceOpaque_t preference = {};
  check(lt_.init_preference(&preference, sizeof preference));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
    check(lt_.set_preference(&preference, name, &value, sizeof value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kMatmulWorkspace));
  for (const auto name :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(name, kMatmulAlignment);
  std::array<cublasLtMatmulHeuristicResult_t, kMost> found;
  int count = 0;
  if (!is_valid_ || lt_.get_heuristic(handle, &operation_, &left_, &right_, &out_, &out_, &preference, kMost,
                                      found.data(), &count) != CUBLAS_STATUS_SUCCESS)
    return {};
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    if (found[i].state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(found[i].algo);
  return algorithms;
}

bool MatmulCall::run(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm, void* workspace,
                     Stream stream) {
  const float one = 1, zero = 0;
  return is_valid_ &&
         lt_.matmul(handle, &operation_, &one, matmul_.b.data, &left_, matmul_.a.data, &right_, &zero,
                    matmul_.out, &out_, matmul_.out, &out_, &algorithm, workspace, kMatmulWorkspace,
                    static_cast<cudaStream_t>(stream)) == CUBLAS_STATUS_SUCCESS;
}

}  // namespace dpo::cuda
