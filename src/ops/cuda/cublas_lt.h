// Gives access to the cuBLASLt functions that we call.
#pragma once

#include <cublasLt.h>

namespace dpo::cuda {

struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) get_heuristic;
  decltype(&cublasLtMatmulDescInit_internal) init_operation;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation;
  decltype(&cublasLtMatrixLayoutInit_internal) init_layout;
  decltype(&cublasLtMatmulPreferenceInit_internal) init_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
};

// Returns the functions of the library that LibTorch has loaded, or null if there is none. Linking one
// ourselves could load another version, in addition to LibTorch's or instead of it.
const CublasLt* cublas_lt();

}  // namespace dpo::cuda
