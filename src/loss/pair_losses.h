#pragma once

#include <span>

#include "loss/dual.h"
#include "loss/loss.h"

namespace dpo::loss {

// A pair: c and r are the policy's log-probabilities of the chosen and the rejected response, c0 and r0 the
// reference's.
struct Pair {
  Dual c, r;
  double c0 = 0, r0 = 0;
  double c_tokens = 1, r_tokens = 1;
  double margin = 0;
};

struct PairLoss {
  const char* name;
  Dual (*of)(const Pair&, const Options&);
  bool uses_reference;
  bool uses_margin;
};

std::span<const PairLoss> pair_losses();

}  // namespace dpo::loss
