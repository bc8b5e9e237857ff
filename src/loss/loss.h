// loss computes preference losses from numbers per response, without tensors or devices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/choices.h"

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

struct Options {
  config::Loss name = config::Loss::dpo;
  double beta = 0.1;
  double label_smoothing = 0;
  bool reference_free = false;
  bool length_normalize = false;  // ipo: log-probabilities per token
  config::Divergence divergence = config::Divergence::reverse_kl;
  double gamma = 0;           // simpo: the margin
  double alpha = 0;           // weight of the chosen response's per-token negative log-likelihood
  double temperature = 0.05;  // discopop
  double reward_shift = 0;    // bco_pair: the running mean of rewards
  double kl = 0;              // kto: estimate over the global batch
  double desirable_weight = 1, undesirable_weight = 1;
};

// The loss of each comparison, and the derivative of their weighted sum with respect to each response's
// policy log-probability. The caller takes means over the global batch, because only the caller knows the
// number of comparisons on all ranks.
struct LossAndGradients {
  std::vector<double> losses;
  std::vector<double> gradients;
};

// Evaluates a loss. `aot` compares sorted margins, so it needs all comparisons of the global batch in one
// call. Every other loss can be computed by microbatch. Throws UserError if an option is invalid.
LossAndGradients evaluate(const Options& options, std::span<const Score> scores,
                          std::span<const Comparison> comparisons);

bool uses_reference(const Options& options);

// True if the loss uses Comparison::margin.
bool uses_margin(const Options& options);

// True if the loss compares examples with each other, and so needs the whole batch in one call.
bool needs_whole_batch(const Options& options);

// True if the gradients do not depend on the scores.
bool has_constant_gradients(const Options& options);

// True if a comparison has one response, desirable or not.
bool is_unpaired(const Options& options);

}  // namespace dpo::loss
