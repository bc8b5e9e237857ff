#pragma once

#include <ATen/Context.h>

namespace dpo::ops {

// While it exists, LibTorch's attention on a GPU adds gradients in a fixed order, so that an update gives the
// same bits every time. It wraps single calls, because some operators throw in this mode although their order
// is fixed.
class Deterministic {
 public:
  Deterministic() { set(true, /*fill=*/false); }
  ~Deterministic() { set(before_, fill_before_); }
  Deterministic(const Deterministic&) = delete;
  Deterministic& operator=(const Deterministic&) = delete;

 private:
  // The mode would also fill every new tensor with NaN, which costs a useless pass over memory.
  static void set(bool on, bool fill) {
    at::globalContext().setDeterministicAlgorithms(on, /*warn_only=*/false);
    at::globalContext().setDeterministicFillUninitializedMemory(fill);
  }

  bool before_ = at::globalContext().deterministicAlgorithms();
  bool fill_before_ = at::globalContext().deterministicFillUninitializedMemory();
};

}  // namespace dpo::ops
