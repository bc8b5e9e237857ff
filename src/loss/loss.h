// loss computes preference losses from numbers per response, without tensors or devices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/run_config.h"

namespace dpo::loss {

// Log-probabilities of a response under both models, summed over its tokens.
struct Score {
  double policy = 0;
  double reference = 0;
  std::int64_t tokens = 1;
};

// One example: the indices of the responses that it compares, the chosen one first. SFT and KTO have one
// response, a ranking has many.
struct Comparison {
  std::vector<std::int32_t> responses;
  bool desirable = true;  // KTO only
  double weight = 1;
  double margin = 0;  // least lead of the chosen reward over the rejected one
};

// The keys of a loss, and the values that depend on the batch and on the run so far.
struct Options : config::LossConfig {
  double reward_shift = 0;  // bco_pair: the running mean of rewards
  double kl = 0;            // kto: estimate over the global batch
};

// The loss of each comparison, and the derivative of their weighted sum with respect to each response's
// policy log-probability. The caller takes means over the global batch, because only the caller knows the
// number of comparisons on all ranks.
struct LossAndGradients {
  std::vector<double> losses;
  std::vector<double> gradients;
};

// Throws UserError if a key has a value that the loss cannot be computed with.
void check(const config::LossConfig& loss);

// Evaluates a loss. One that compares examples with each other (config/losses.h) needs all comparisons of the
// global batch in one call. Every other loss can be computed by microbatch.
LossAndGradients evaluate(const Options& options, std::span<const Score> scores,
                          std::span<const Comparison> comparisons);

}  // namespace dpo::loss
