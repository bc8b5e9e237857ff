#include <cmath>

#include <ATen/ops/zeros_like.h>

#include "ops/fused.h"
#include "optim/rounding.h"
#include "optim/update_rules.h"

namespace dpo::optim {
namespace {

class ElementwiseOptimizer : public Optimizer {
 public:
  ElementwiseOptimizer(Elementwise rule, const model::Weights& weights) : rule_(std::move(rule)) {
    for (const model::BlockWeights& block : weights.blocks) {
      state_.emplace_back();
      for (std::size_t i = 0; i < rule_.state.size(); ++i)
        state_.back().push_back(at::zeros_like(block.flat));
    }
  }

  State state() const override {
    State state;
    for (std::size_t i = 0; i < rule_.state.size(); ++i) {
      state.arrays.push_back({rule_.state[i], {}});
      for (const std::vector<at::Tensor>& block : state_) state.arrays.back().blocks.push_back(block[i]);
    }
    return state;
  }

 protected:
  bool update(std::size_t block, model::BlockWeights& weights, const model::BlockWeights& gradients,
              const BlockStep& step) override {
    std::vector<at::Tensor>& state = state_[block];
    const at::Tensor& gradient = gradients.flat;
    RuleStep rule_step{step.learning_rate, updates(), step.gradient_scale, step.copy};
    if (weights.flat.scalar_type() == at::kFloat)
      return rule_.update(weights.flat, gradient, state, rule_step);
    at::Tensor exact = weights.flat.to(at::kFloat);
    std::vector<at::Tensor> exact_state;
    for (const at::Tensor& tensor : state) exact_state.push_back(tensor.to(at::kFloat));
    rule_step.copy = at::Tensor();  // of what is stored, after rounding
    rule_.update(exact, gradient, exact_state, rule_step);
    // Every array has its own random numbers; the constant only keeps the seeds apart.
    constexpr std::uint64_t kStride = 0x9E3779B97F4A7C15;
    stochastic_round(weights.flat, exact, step.seed * kStride);
    for (std::size_t i = 0; i < state.size(); ++i)
      stochastic_round(state[i], exact_state[i], step.seed * kStride + i + 1);
    return false;
  }

 private:
  Elementwise rule_;
  std::vector<std::vector<at::Tensor>> state_;  // by block, then by name
};

// The gradient in float32, with L2 weight decay added.
at::Tensor decayed(const at::Tensor& gradient, const RuleStep& step, const at::Tensor& weights, double l2) {
  const at::Tensor exact = scaled(gradient, step.gradient_scale);
  return l2 == 0 ? exact : exact.add(weights, l2);
}

}  // namespace

at::Tensor scaled(const at::Tensor& gradient, double scale) {
  const at::Tensor exact = gradient.to(at::kFloat);
  return scale == 1 ? exact : exact.mul(scale);
}

Elementwise rmsprop(double epsilon, double l2) {
  constexpr double kAlpha = 0.99;
  return {{"square_avg"},
          [=](at::Tensor& w, const at::Tensor& gradient, std::span<at::Tensor> state, const RuleStep& step) {
            const double lr = step.learning_rate;
            if (ops::fused::rmsprop(w, gradient, state[0],
                                    {{lr, l2, step.gradient_scale, step.copy}, kAlpha, epsilon}))
              return true;
            const at::Tensor g = decayed(gradient, step, w, l2);
            state[0].mul_(kAlpha).addcmul_(g, g, 1 - kAlpha);
            w.addcdiv_(g, state[0].sqrt().add_(epsilon), -lr);
            return false;
          }};
}

Elementwise adam(const AdamSettings& s) {
  return {{"exp_avg", "exp_avg_sq"},
          [s](at::Tensor& w, const at::Tensor& gradient, std::span<at::Tensor> state, const RuleStep& step) {
            const double lr = step.learning_rate;
            if (ops::fused::adam(w, gradient, state[0], state[1],
                                 {{lr, s.l2, step.gradient_scale, step.copy},
                                  s.decoupled,
                                  s.beta1,
                                  s.beta2,
                                  s.epsilon,
                                  step.update}))
              return true;
            const auto t = static_cast<double>(step.update);
            const double correction1 = 1 - std::pow(s.beta1, t), correction2 = 1 - std::pow(s.beta2, t);
            const at::Tensor g = decayed(gradient, step, w, s.l2);
            if (s.decoupled != 0) w.mul_(1 - lr * s.decoupled);
            state[0].lerp_(g, 1 - s.beta1);
            state[1].mul_(s.beta2).addcmul_(g, g, 1 - s.beta2);
            w.addcdiv_(state[0], state[1].sqrt().div_(std::sqrt(correction2)).add_(s.epsilon),
                       -lr / correction1);
            return false;
          }};
}

Elementwise sgd(double l2) {
  return {{}, [l2](at::Tensor& w, const at::Tensor& g, std::span<at::Tensor>, const RuleStep& step) {
            w.add_(decayed(g, step, w, l2), -step.learning_rate);
            return false;
          }};
}

std::unique_ptr<Optimizer> make_elementwise(Elementwise rule, const model::Weights& weights) {
  return std::make_unique<ElementwiseOptimizer>(std::move(rule), weights);
}

}  // namespace dpo::optim
