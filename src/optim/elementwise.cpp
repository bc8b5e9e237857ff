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

}  // namespace

Elementwise rmsprop() {
  constexpr double kAlpha = 0.99, kEpsilon = 1e-8;
  return {{"square_avg"},
          [](at::Tensor& w, const at::Tensor& gradient, std::span<at::Tensor> kept, double lr, std::int64_t) {
            if (ops::fused::rmsprop(w, gradient, kept[0], {lr, kAlpha, kEpsilon})) return;
            const at::Tensor g = gradient.to(at::kFloat);
            kept[0].mul_(kAlpha).addcmul_(g, g, 1 - kAlpha);
            w.addcdiv_(g, kept[0].sqrt().add_(kEpsilon), -lr);
          }};
}

Elementwise adam(double weight_decay) {
  constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;
  return {{"exp_avg", "exp_avg_sq"},
          [weight_decay](at::Tensor& w, const at::Tensor& gradient, std::span<at::Tensor> kept, double lr,
                         std::int64_t update) {
            if (ops::fused::adam(w, gradient, kept[0], kept[1],
                                 {lr, weight_decay, kBeta1, kBeta2, kEpsilon, update}))
              return;
            const at::Tensor g = gradient.to(at::kFloat);
            const auto t = static_cast<double>(update);
            const double correction1 = 1 - std::pow(kBeta1, t), correction2 = 1 - std::pow(kBeta2, t);
            if (weight_decay != 0) w.mul_(1 - lr * weight_decay);
            kept[0].lerp_(g, 1 - kBeta1);
            kept[1].mul_(kBeta2).addcmul_(g, g, 1 - kBeta2);
            w.addcdiv_(kept[0], kept[1].sqrt().div_(std::sqrt(correction2)).add_(kEpsilon),
                       -lr / correction1);
          }};
}

Elementwise sgd() {
  return {{}, [](at::Tensor& w, const at::Tensor& g, std::span<at::Tensor>, double lr, std::int64_t) {
            w.add_(g.to(at::kFloat), -lr);
          }};
}

std::unique_ptr<Optimizer> make_elementwise(Elementwise rule, const model::Weights& weights) {
  return std::make_unique<ElementwiseOptimizer>(std::move(rule), weights);
}

}  // namespace dpo::optim
