#include "loss/loss.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "loss/pair_losses.h"

namespace dpo::loss {
namespace {

using Scores = std::span<const Score>;
using Comparisons = std::span<const Comparison>;
using config::Loss;

std::size_t index(const Comparison& comparison, std::size_t rank) {
  return static_cast<std::size_t>(comparison.responses[rank]);
}

double tokens_of(const Score& score) { return static_cast<double>(std::max<std::int64_t>(1, score.tokens)); }

// Adds the chosen response's negative log-likelihood (`alpha`), and stores the value and the derivatives.
void store(LossAndGradients& result, const Options& o, Scores scores, const Comparison& comparison,
           std::size_t at, Dual loss) {
  const std::size_t chosen = index(comparison, 0);
  if (o.alpha != 0) {
    const double tokens = tokens_of(scores[chosen]);
    loss = loss - o.alpha * (Dual(scores[chosen].policy, 1, 0) / tokens);
  }
  result.losses[at] = loss.value;
  result.gradients[chosen] += comparison.weight * loss.by_chosen;
  if (comparison.responses.size() > 1)
    result.gradients[index(comparison, 1)] += comparison.weight * loss.by_rejected;
}

Pair pair_of(const Options& o, Scores scores, const Comparison& comparison) {
  assert(comparison.responses.size() == 2);
  const Score& chosen = scores[index(comparison, 0)];
  const Score& rejected = scores[index(comparison, 1)];
  return {.c = {chosen.policy, 1, 0},
          .r = {rejected.policy, 0, 1},
          .c0 = o.reference_free ? 0 : chosen.reference,
          .r0 = o.reference_free ? 0 : rejected.reference,
          .c_tokens = tokens_of(chosen),
          .r_tokens = tokens_of(rejected),
          .margin = comparison.margin};
}

void sft(const Options& o, Scores scores, Comparisons comparisons, LossAndGradients& result) {
  for (std::size_t i = 0; i < comparisons.size(); ++i)
    store(result, o, scores, comparisons[i], i, -Dual(scores[index(comparisons[i], 0)].policy, 1, 0));
}

// Sorts the margins of policy and reference over the batch and compares them in that order. The k-th loss
// belongs to the comparison with the policy's k-th smallest margin.
void aot(const Options& o, Scores scores, Comparisons comparisons, LossAndGradients& result) {
  std::vector<Pair> pairs;
  for (const Comparison& comparison : comparisons) pairs.push_back(pair_of(o, scores, comparison));
  std::vector<double> reference;
  for (const Pair& pair : pairs) reference.push_back(pair.c0 - pair.r0);
  std::sort(reference.begin(), reference.end());
  std::vector<std::size_t> order(pairs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto margin = [&](std::size_t i) { return (pairs[i].c - pairs[i].r).value; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return margin(a) < margin(b); });
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const std::size_t i = order[rank];
    const Dual lead = o.beta * (pairs[i].c - pairs[i].r - reference[rank]);
    const Dual loss = -(1 - o.label_smoothing) * log_sigmoid(lead) - o.label_smoothing * log_sigmoid(-lead);
    store(result, o, scores, comparisons[i], i, loss);
  }
}

void kto(const Options& o, Scores scores, Comparisons comparisons, LossAndGradients& result) {
  const double kl = std::max(0.0, o.kl);
  for (std::size_t i = 0; i < comparisons.size(); ++i) {
    const Score& score = scores[index(comparisons[i], 0)];
    const Dual ratio = Dual(score.policy, 1, 0) - (o.reference_free ? 0 : score.reference);
    const Dual loss = comparisons[i].desirable ? o.desirable_weight * (1 - sigmoid(o.beta * (ratio - kl)))
                                               : o.undesirable_weight * (1 - sigmoid(o.beta * (kl - ratio)));
    store(result, o, scores, comparisons[i], i, loss);
  }
}

// Computes -sum over ranks k of s_k - logsumexp of s_k, s_k+1, ... The last rank adds 0, because it is the
// only one left to choose.
void plackett_luce(const Options& o, Scores scores, Comparisons comparisons, LossAndGradients& result) {
  for (std::size_t i = 0; i < comparisons.size(); ++i) {
    const Comparison& comparison = comparisons[i];
    std::vector<double> s;
    for (std::size_t k = 0; k < comparison.responses.size(); ++k) {
      const Score& score = scores[index(comparison, k)];
      s.push_back(o.beta * (score.policy - (o.reference_free ? 0 : score.reference)));
    }
    double loss = 0;
    for (std::size_t k = 0; k + 1 < s.size(); ++k) {
      const double largest = *std::max_element(s.begin() + static_cast<std::ptrdiff_t>(k), s.end());
      double sum = 0;
      for (std::size_t j = k; j < s.size(); ++j) sum += std::exp(s[j] - largest);
      loss += largest + std::log(sum) - s[k];
      for (std::size_t j = k; j < s.size(); ++j) {
        const double share = std::exp(s[j] - largest) / sum;
        result.gradients[index(comparison, j)] += comparison.weight * o.beta * (share - (j == k ? 1 : 0));
      }
    }
    store(result, o, scores, comparison, i, loss);
  }
}

struct BatchLoss {
  void (*of)(const Options&, Scores, Comparisons, LossAndGradients&) = nullptr;
  bool uses_reference = false;
};

// There is no `default`, so that a forgotten loss does not compile.
BatchLoss batch_loss(Loss loss) {
  switch (loss) {
    case Loss::sft: return {sft, false};
    case Loss::aot: return {aot, true};
    case Loss::kto: return {kto, true};
    case Loss::plackett_luce: return {plackett_luce, true};
    case Loss::dpo:
    case Loss::ipo:
    case Loss::hinge:
    case Loss::robust:
    case Loss::exo_pair:
    case Loss::nca_pair:
    case Loss::sppo_hard:
    case Loss::apo_zero:
    case Loss::apo_down:
    case Loss::discopop:
    case Loss::bco_pair:
    case Loss::sigmoid_norm:
    case Loss::simpo:
    case Loss::cpo:
    case Loss::orpo: break;  // a sum over pairs: pair_loss()
  }
  return {};
}

void check(const Options& o) {
  if (o.name == Loss::exo_pair && o.label_smoothing <= 0)
    throw UserError("loss.label_smoothing: exo_pair needs a number > 0 (its authors use 1e-3)");
  if (o.label_smoothing < 0 || o.label_smoothing >= 0.5)
    throw UserError(
        fmt::format("loss.label_smoothing: got {}, expected a number >= 0 and < 0.5", o.label_smoothing));
}

}  // namespace

LossAndGradients evaluate(const Options& options, Scores scores, Comparisons comparisons) {
  check(options);
  LossAndGradients result;
  result.losses.resize(comparisons.size());
  result.gradients.resize(scores.size());
  if (const BatchLoss loss = batch_loss(options.name); loss.of) {
    loss.of(options, scores, comparisons, result);
    return result;
  }
  const PairLoss loss = pair_loss(options.name);
  for (std::size_t i = 0; i < comparisons.size(); ++i)
    store(result, options, scores, comparisons[i], i,
          loss.of(pair_of(options, scores, comparisons[i]), options));
  return result;
}

bool uses_reference(const Options& options) {
  return !options.reference_free &&
         (batch_loss(options.name).uses_reference || pair_loss(options.name).uses_reference);
}

bool uses_margin(const Options& options) { return pair_loss(options.name).uses_margin; }

bool needs_whole_batch(const Options& options) { return options.name == Loss::aot; }

bool has_constant_gradients(const Options& options) { return options.name == Loss::sft; }

bool is_unpaired(const Options& options) { return options.name == Loss::kto; }

}  // namespace dpo::loss
