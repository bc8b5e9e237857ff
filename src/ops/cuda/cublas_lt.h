// The functions of cuBLASLt that we call.
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

// Those of the library that LibTorch has loaded: if we linked one, it could be another version, loaded beside
// it or instead of it. Null if there is none.
const CublasLt* cublas_lt();

}  // namespace dpo::cuda
