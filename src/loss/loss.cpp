#include "loss/loss.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <stdexcept>

#include <fmt/format.h>

#include "base/error.h"
#include "config/losses.h"
#include "loss/dual.h"

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

// Scores of a pair. c and r are the policy's log-probabilities of the chosen and the rejected response; c0
// and r0 are the reference's.
struct Pair {
  Dual c, r;
  double c0 = 0, r0 = 0;
  double c_tokens = 1, r_tokens = 1;
  double margin = 0;
};

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

// Evaluates a loss that is a sum over pairs.
template <Dual (*of_pair)(const Pair&, const Options&)>
void sum_of(const Options& o, Scores scores, Comparisons comparisons, LossAndGradients& result) {
  for (std::size_t i = 0; i < comparisons.size(); ++i)
    store(result, o, scores, comparisons[i], i, of_pair(pair_of(o, scores, comparisons[i]), o));
}

// Notation follows docs/losses.md. u and v are the log-ratios of policy to reference, transformed for
// divergences other than the reverse KL. z is the chosen response's lead in reward.
Dual divergence(const Dual& ratio, const Options& o) {
  switch (o.divergence) {
    case config::Divergence::reverse_kl: break;
    case config::Divergence::forward_kl: return -exp(-ratio);
    case config::Divergence::js: return log_sigmoid(ratio);
  }
  return ratio;
}

Dual u(const Pair& p, const Options& o) { return divergence(p.c - p.c0, o); }
Dual v(const Pair& p, const Options& o) { return divergence(p.r - p.r0, o); }
Dual z(const Pair& p, const Options& o) { return o.beta * (u(p, o) - v(p, o)) - p.margin; }

Dual dpo(const Pair& p, const Options& o) {
  const Dual lead = z(p, o);
  return -(1 - o.label_smoothing) * log_sigmoid(lead) - o.label_smoothing * log_sigmoid(-lead);
}

Dual ipo(const Pair& p, const Options& o) {
  const Dual lead = o.length_normalize ? u(p, o) / p.c_tokens - v(p, o) / p.r_tokens : u(p, o) - v(p, o);
  return square(lead - 1 / (2 * o.beta));
}

Dual hinge(const Pair& p, const Options& o) { return relu(1 - z(p, o)); }

Dual robust(const Pair& p, const Options& o) {
  const Dual lead = z(p, o);
  const double e = o.label_smoothing;
  return (-(1 - e) * log_sigmoid(lead) + e * log_sigmoid(-lead)) / (1 - 2 * e);
}

Dual exo_pair(const Pair& p, const Options& o) {
  const Dual lead = z(p, o);
  const double e = o.label_smoothing;
  return sigmoid(lead) * (log_sigmoid(lead) - std::log(1 - e)) +
         sigmoid(-lead) * (log_sigmoid(-lead) - std::log(e));
}

Dual nca_pair(const Pair& p, const Options& o) {
  const Dual good = o.beta * u(p, o), bad = o.beta * v(p, o);
  return -log_sigmoid(good) - 0.5 * log_sigmoid(-good) - 0.5 * log_sigmoid(-bad);
}

Dual sppo_hard(const Pair& p, const Options& o) {
  return square(u(p, o) - 1 / (2 * o.beta)) + square(v(p, o) + 1 / (2 * o.beta));
}

Dual apo_zero(const Pair& p, const Options& o) {
  return 1 - sigmoid(o.beta * u(p, o)) + sigmoid(o.beta * v(p, o));
}

Dual apo_down(const Pair& p, const Options& o) { return sigmoid(o.beta * u(p, o)) + 1 - sigmoid(z(p, o)); }

Dual discopop(const Pair& p, const Options& o) {
  const Dual lead = z(p, o);
  const Dual mix = lead / o.temperature;
  // The second weight is part of the exponent. Far below 0 it vanishes faster than exp(-lead) overflows.
  return sigmoid(-mix) * -log_sigmoid(lead) + exp(log_sigmoid(mix) - lead);
}

Dual sigmoid_norm(const Pair& p, const Options& o) {
  return -log_sigmoid(o.beta * (u(p, o) / p.c_tokens - v(p, o) / p.r_tokens) - p.margin);
}

Dual bco_pair(const Pair& p, const Options& o) {
  return -log_sigmoid(o.beta * u(p, o) - o.reward_shift) - log_sigmoid(-(o.beta * v(p, o) - o.reward_shift));
}

Dual simpo(const Pair& p, const Options& o) {
  return -log_sigmoid(o.beta * (p.c / p.c_tokens - p.r / p.r_tokens) - o.gamma - p.margin);
}

Dual cpo(const Pair& p, const Options& o) { return -log_sigmoid(o.beta * (p.c - p.r) - p.margin); }

Dual orpo(const Pair& p, const Options& o) {
  const Dual good = p.c / p.c_tokens, bad = p.r / p.r_tokens;
  return -good - o.beta * log_sigmoid((good - bad) - (log1mexp(good) - log1mexp(bad)));
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

using Formula = void (*)(const Options&, Scores, Comparisons, LossAndGradients&);

// There is no `default`, so that a forgotten loss does not compile.
Formula formula_of(Loss loss) {
  switch (loss) {
    case Loss::sft: return sft;
    case Loss::dpo: return sum_of<dpo>;
    case Loss::ipo: return sum_of<ipo>;
    case Loss::hinge: return sum_of<hinge>;
    case Loss::robust: return sum_of<robust>;
    case Loss::exo_pair: return sum_of<exo_pair>;
    case Loss::nca_pair: return sum_of<nca_pair>;
    case Loss::sppo_hard: return sum_of<sppo_hard>;
    case Loss::apo_zero: return sum_of<apo_zero>;
    case Loss::apo_down: return sum_of<apo_down>;
    case Loss::discopop: return sum_of<discopop>;
    case Loss::bco_pair: return sum_of<bco_pair>;
    case Loss::sigmoid_norm: return sum_of<sigmoid_norm>;
    case Loss::aot: return aot;
    case Loss::simpo: return sum_of<simpo>;
    case Loss::cpo: return sum_of<cpo>;
    case Loss::orpo: return sum_of<orpo>;
    case Loss::plackett_luce: return plackett_luce;
    case Loss::kto: return kto;
  }
  throw std::logic_error("a loss without a formula");
}

}  // namespace

void check(const config::LossConfig& loss) {
  if (config::facts_of(loss.name).must_smooth && loss.label_smoothing <= 0)
    throw UserError(fmt::format("loss.label_smoothing: {} needs a number > 0 (its authors use 1e-3)",
                                name_of(loss.name)));
  if (loss.label_smoothing < 0 || loss.label_smoothing >= 0.5)
    throw UserError(
        fmt::format("loss.label_smoothing: got {}, expected a number >= 0 and < 0.5", loss.label_smoothing));
}

LossAndGradients evaluate(const Options& options, Scores scores, Comparisons comparisons) {
  check(options);
  LossAndGradients result;
  result.losses.resize(comparisons.size());
  result.gradients.resize(scores.size());
  formula_of(options.name)(options, scores, comparisons, result);
  return result;
}

}  // namespace dpo::loss
