// Implements Adafactor as in torch.optim. The state of a matrix is only the mean squares of its rows and
// columns.
#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ops/matmul.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/zeros.h>

#include "optim/rounding.h"
#include "optim/update_rules.h"

namespace dpo::optim {
namespace {

constexpr double kBeta2Decay = -0.8, kSmallestScale = 1e-3, kClip = 1;

struct Variance {
  at::Tensor rows, columns;  // of a matrix: [rows, 1] and [1, columns]
  at::Tensor whole;          // of a vector
};

double root_mean_square(const at::Tensor& x) {
  return at::norm(x).item<double>() / std::sqrt(static_cast<double>(x.numel()));
}

// Updates the estimate of the squared gradient with `g`, and returns it.
at::Tensor estimate(Variance& variance, const at::Tensor& g, double share, double epsilon) {
  if (g.dim() < 2) return variance.whole.lerp_(g * g, share).clone();
  const auto mean_square = [&g](std::int64_t dim) {
    return at::norm(g, 2, {dim}, /*keepdim=*/true).square_().div_(g.size(dim));
  };
  variance.rows.lerp_(mean_square(-1), share);
  variance.columns.lerp_(mean_square(-2), share);
  return at::matmul(variance.rows, variance.columns)
      .div_(variance.rows.mean({-2}, /*keepdim=*/true).clamp_min_(epsilon));
}

// Joins a tensor of a block that is stored in two parts, with the padding up to a multiple of 8 that follows
// it, changes it, and splits it again.
template <class Action>
void update_parts(const model::BlockWeights& block, const at::Tensor& tensor, const Action& action) {
  const std::int64_t from = tensor.storage_offset() - block.flat.storage_offset();
  const std::int64_t count = (tensor.numel() + 7) / 8 * 8;
  at::Tensor rounded = block.flat.narrow(0, from, count);
  ops::FloatRest rest = ops::part_of(block.rest, from, count);
  const at::Tensor exact = ops::joined(rounded, rest);
  at::Tensor view = exact.narrow(0, 0, tensor.numel()).view(tensor.sizes());
  action(view);
  ops::split(exact, rounded, rest);
}

class Adafactor : public Optimizer {
 public:
  Adafactor(const model::Weights& weights, double weight_decay) : weight_decay_(weight_decay) {
    for (const model::BlockWeights& block : weights.blocks) {
      state_.emplace_back();
      for (const model::NamedTensor& named : block.tensors)
        state_.back().push_back(make_variance(named.tensor));
    }
  }

  State state() const override {
    State state;
    for (std::size_t block = 0; block < state_.size(); ++block)
      for (std::size_t i = 0; i < state_[block].size(); ++i) {
        const auto& [rows, columns, whole] = state_[block][i];
        if (whole.defined()) state.tensors.push_back({"variance", block, i, whole});
        if (rows.defined()) state.tensors.push_back({"row_var", block, i, rows});
        if (columns.defined()) state.tensors.push_back({"col_var", block, i, columns});
      }
    return state;
  }

 protected:
  bool update(std::size_t block, model::BlockWeights& weights, const model::BlockWeights& gradients,
              const BlockStep& step) override {
    for (std::size_t i = 0; i < weights.tensors.size(); ++i) {
      const at::Tensor g = scaled(gradients.tensors[i].tensor, step.gradient_scale);
      const auto apply = [&](at::Tensor& tensor) {
        update_tensor(tensor, g, state_[block][i], step.learning_rate, step.seed * 4099 + i);
      };
      if (weights.rest.defined())
        update_parts(weights, weights.tensors[i].tensor, apply);
      else
        apply(weights.tensors[i].tensor);
    }
    return false;
  }

 private:
  // The state is small, so it is float32 whatever the dtype of the weights.
  static Variance make_variance(const at::Tensor& tensor) {
    const auto options = tensor.options().dtype(at::kFloat);
    if (tensor.dim() < 2) return {{}, {}, at::zeros(tensor.sizes(), options)};
    return {at::zeros({tensor.size(0), 1}, options), at::zeros({1, tensor.size(1)}, options), {}};
  }

  void update_tensor(at::Tensor& weights, const at::Tensor& g, Variance& variance, double learning_rate,
                     std::uint64_t seed) const {
    const auto t = static_cast<double>(updates());
    const double epsilon = std::numeric_limits<float>::epsilon();
    const double scale = std::max(kSmallestScale, root_mean_square(weights.to(at::kFloat))) *
                         std::min(learning_rate, 1 / std::sqrt(t));
    const at::Tensor change = estimate(variance, g, std::pow(t, kBeta2Decay), epsilon)
                                  .clamp_min_(epsilon * epsilon)
                                  .rsqrt_()
                                  .mul_(g);
    const double factor = -scale / std::max(1.0, root_mean_square(change) / kClip);
    const auto apply = [&](at::Tensor& exact) {
      if (weight_decay_ != 0) exact.mul_(1 - learning_rate * weight_decay_);
      exact.add_(change, factor);
    };
    if (weights.scalar_type() == at::kFloat) return apply(weights);
    at::Tensor exact = weights.to(at::kFloat);
    apply(exact);
    stochastic_round(weights, exact, seed);
  }

  double weight_decay_;
  std::vector<std::vector<Variance>> state_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adafactor(const model::Weights& weights, double weight_decay) {
  return std::make_unique<Adafactor>(weights, weight_decay);
}

}  // namespace dpo::optim
