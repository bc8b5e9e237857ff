#pragma once

#include "loss/dual.h"
#include "loss/loss.h"

namespace dpo::loss {

// Scores of a pair. c and r are the policy's log-probabilities of the chosen and the rejected response; c0
// and r0 are the reference's.
struct Pair {
  Dual c, r;
  double c0 = 0, r0 = 0;
  double c_tokens = 1, r_tokens = 1;
  double margin = 0;
};

struct PairLoss {
  Dual (*of)(const Pair&, const Options&) = nullptr;  // null: the loss is not a sum over pairs
  bool uses_reference = false;
  bool uses_margin = false;
};

PairLoss pair_loss(config::Loss loss);

}  // namespace dpo::loss
