#include "ops/cuda/cublas_lt.h"

#include <dlfcn.h>

#include <optional>

namespace dpo::cuda {
namespace {

template <class Function>
bool find(Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

std::optional<CublasLt> found_library() {
  CublasLt lt{};
  const bool has_all = find(lt.create, "cublasLtCreate") && find(lt.matmul, "cublasLtMatmul") &&
                       find(lt.get_heuristic, "cublasLtMatmulAlgoGetHeuristic") &&
                       find(lt.init_operation, "cublasLtMatmulDescInit_internal") &&
                       find(lt.set_operation, "cublasLtMatmulDescSetAttribute") &&
                       find(lt.init_layout, "cublasLtMatrixLayoutInit_internal") &&
                       find(lt.init_preference, "cublasLtMatmulPreferenceInit_internal") &&
                       find(lt.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  return has_all ? std::optional(lt) : std::nullopt;
}

}  // namespace

const CublasLt* cublas_lt() {
  static const std::optional<CublasLt> library = found_library();
  return library ? &*library : nullptr;
}

}  // namespace dpo::cuda
