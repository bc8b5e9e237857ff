#include "loss/pair_losses.h"

#include <algorithm>

namespace dpo::loss {
namespace {

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

}  // namespace

// There is no `default`, so that a forgotten loss does not compile.
PairLoss pair_loss(config::Loss loss) {
  using config::Loss;
  switch (loss) {
    case Loss::dpo: return {dpo, true, true};
    case Loss::ipo: return {ipo, true, false};
    case Loss::hinge: return {hinge, true, true};
    case Loss::robust: return {robust, true, true};
    case Loss::exo_pair: return {exo_pair, true, true};
    case Loss::nca_pair: return {nca_pair, true, false};
    case Loss::sppo_hard: return {sppo_hard, true, false};
    case Loss::apo_zero: return {apo_zero, true, false};
    case Loss::apo_down: return {apo_down, true, true};
    case Loss::discopop: return {discopop, true, true};
    case Loss::sigmoid_norm: return {sigmoid_norm, true, true};
    case Loss::bco_pair: return {bco_pair, true, false};
    case Loss::simpo: return {simpo, false, true};
    case Loss::cpo: return {cpo, false, true};
    case Loss::orpo: return {orpo, false, false};
    case Loss::sft:
    case Loss::aot:
    case Loss::kto:
    case Loss::plackett_luce: break;
  }
  return {};
}

}  // namespace dpo::loss
