// loss: preference losses as functions of numbers per response. The vocabulary, tensors and devices are
// elsewhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::loss {

// What the models say of one response: sums of log-probabilities over its tokens.
struct Score {
  double policy = 0;
  double reference = 0;
  std::int64_t tokens = 1;
};

// An example: the responses that it compares, by number, the better first. SFT and KTO have one, a ranking
// has many.
struct Comparison {
  std::vector<std::int32_t> responses;
  bool desirable = true;  // KTO: whether the one response is wanted
  double weight = 1;
  double margin = 0;  // by how much the better one should lead, in rewards
};

struct Options {
  std::string name = "dpo";
  double beta = 0.1;
  double label_smoothing = 0;
  bool reference_free = false;
  bool length_normalize = false;          // ipo: log-probabilities per token
  std::string divergence = "reverse_kl";  // or forward_kl, js
  double gamma = 0;                       // simpo: the margin
  double alpha = 0;                       // share of the chosen response's negative log-likelihood per token
  double temperature = 0.05;              // discopop
  double reward_shift = 0;                // bco_pair: the running mean of rewards
  double kl = 0;                          // kto: estimate over the global batch
  double desirable_weight = 1, undesirable_weight = 1;
};

// Losses of the comparisons, and the derivative of their weighted sum by each response's policy
// log-probability. Means over the global batch are the caller's: only it knows how many comparisons there are
// on all ranks.
struct Terms {
  std::vector<double> losses;
  std::vector<double> gradients;
};

// `aot` compares sorted margins, so all comparisons of the global batch must be given at once; every other
// loss may be given them piece by piece. An unknown name or impossible option is a UserError.
Terms evaluate(const Options& options, std::span<const Score> scores,
               std::span<const Comparison> comparisons);

std::vector<std::string> loss_names();
bool uses_reference(const Options& options);

// Whether the loss knows a margin that the better response of a pair should lead by.
bool uses_margin(const Options& options);

// Whether the loss compares examples with each other, so that all of a batch must be given at once.
bool needs_whole_batch(const Options& options);

// Whether a comparison has one response, wanted or not.
bool is_unpaired(const Options& options);

}  // namespace dpo::loss
