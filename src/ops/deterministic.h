#pragma once

#include <ATen/Context.h>

namespace dpo::ops {

// While it exists, LibTorch's attention adds up gradients in a fixed order on a GPU, so that an update gives
// the same bits every time. Used around single calls: some operators throw in this mode although their order
// is fixed.
class Deterministic {
 public:
  Deterministic() { set(true, /*fill=*/false); }
  ~Deterministic() { set(before_, fill_before_); }
  Deterministic(const Deterministic&) = delete;
  Deterministic& operator=(const Deterministic&) = delete;

 private:
  // The mode would also write NaN into every new tensor first: a pass over memory for nothing.
  static void set(bool on, bool fill) {
    at::globalContext().setDeterministicAlgorithms(on, /*warn_only=*/false);
    at::globalContext().setDeterministicFillUninitializedMemory(fill);
  }

  bool before_ = at::globalContext().deterministicAlgorithms();
  bool fill_before_ = at::globalContext().deterministicFillUninitializedMemory();
};

}  // namespace dpo::ops
