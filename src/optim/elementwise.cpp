#include <cmath>

#include <ATen/ops/zeros_like.h>

#include "ops/fused.h"
#include "optim/bodies.h"
#include "optim/rounding.h"

namespace dpo::optim {
namespace {

class ElementwiseOptimizer : public Optimizer {
 public:
  ElementwiseOptimizer(Elementwise rule, const model::Weights& weights) : rule_(std::move(rule)) {
    for (const model::BlockWeights& block : weights.blocks) {
      kept_.emplace_back();
      for (std::size_t i = 0; i < rule_.kept.size(); ++i) kept_.back().push_back(at::zeros_like(block.flat));
    }
  }

  State state() const override {
    State state;
    for (std::size_t i = 0; i < rule_.kept.size(); ++i) {
      state.arrays.push_back({rule_.kept[i], {}});
      for (const std::vector<at::Tensor>& block : kept_) state.arrays.back().blocks.push_back(block[i]);
    }
    return state;
  }

 protected:
  void update(std::size_t block, model::BlockWeights& weights, const model::BlockWeights& gradients,
              double learning_rate, std::uint64_t seed) override {
    std::vector<at::Tensor>& kept = kept_[block];
    const at::Tensor& gradient = gradients.flat;
    if (weights.flat.scalar_type() == at::kFloat)
      return rule_.update(weights.flat, gradient, kept, learning_rate, updates());
    at::Tensor exact = weights.flat.to(at::kFloat);
    std::vector<at::Tensor> exact_kept;
    for (const at::Tensor& tensor : kept) exact_kept.push_back(tensor.to(at::kFloat));
    rule_.update(exact, gradient, exact_kept, learning_rate, updates());
    // Every array draws its own numbers; the constant only keeps the seeds apart.
    constexpr std::uint64_t kStride = 0x9E3779B97F4A7C15;
    round_at_random(weights.flat, exact, seed * kStride);
    for (std::size_t i = 0; i < kept.size(); ++i)
      round_at_random(kept[i], exact_kept[i], seed * kStride + i + 1);
  }

 private:
  Elementwise rule_;
  std::vector<std::vector<at::Tensor>> kept_;  // by block, then by name
};

// The gradient in float32, with the weight decay that goes into it.
at::Tensor decayed(const at::Tensor& gradient, const at::Tensor& weights, double l2) {
  const at::Tensor exact = gradient.to(at::kFloat);
  return l2 == 0 ? exact : exact.add(weights, l2);
}

}  // namespace

Elementwise rmsprop(double epsilon, double l2) {
  constexpr double kAlpha = 0.99;
  return {
      {"square_avg"},
      [=](at::Tensor& w, const at::Tensor& gradient, std::span<at::Tensor> kept, double lr, std::int64_t) {
        if (ops::fused::rmsprop(w, gradient, kept[0], {lr, l2, kAlpha, epsilon})) return;
        const at::Tensor g = decayed(gradient, w, l2);
        kept[0].mul_(kAlpha).addcmul_(g, g, 1 - kAlpha);
        w.addcdiv_(g, kept[0].sqrt().add_(epsilon), -lr);
      }};
}

Elementwise adam(const AdamSettings& s) {
  return {{"exp_avg", "exp_avg_sq"},
          [s](at::Tensor& w, const at::Tensor& gradient, std::span<at::Tensor> kept, double lr,
              std::int64_t update) {
            if (ops::fused::adam(w, gradient, kept[0], kept[1],
                                 {lr, s.l2, s.decoupled, s.beta1, s.beta2, s.epsilon, update}))
              return;
            const auto t = static_cast<double>(update);
            const double correction1 = 1 - std::pow(s.beta1, t), correction2 = 1 - std::pow(s.beta2, t);
            const at::Tensor g = decayed(gradient, w, s.l2);
            if (s.decoupled != 0) w.mul_(1 - lr * s.decoupled);
            kept[0].lerp_(g, 1 - s.beta1);
            kept[1].mul_(s.beta2).addcmul_(g, g, 1 - s.beta2);
            w.addcdiv_(kept[0], kept[1].sqrt().div_(std::sqrt(correction2)).add_(s.epsilon),
                       -lr / correction1);
          }};
}

Elementwise sgd(double l2) {
  return {{}, [l2](at::Tensor& w, const at::Tensor& g, std::span<at::Tensor>, double lr, std::int64_t) {
            w.add_(decayed(g, w, l2), -lr);
          }};
}

std::unique_ptr<Optimizer> make_elementwise(Elementwise rule, const model::Weights& weights) {
  return std::make_unique<ElementwiseOptimizer>(std::move(rule), weights);
}

}  // namespace dpo::optim
