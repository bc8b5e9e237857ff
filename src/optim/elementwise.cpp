#include <algorithm>
#include <cmath>

#include "base/number_formats.h"
#include "ops/state_math.h"
#include "optim/rounding.h"
#include "optim/state_storage.h"
#include "optim/update_rules.h"

namespace dpo::optim {
namespace {

class ElementwiseOptimizer : public Optimizer {
 public:
  ElementwiseOptimizer(Elementwise rule, const model::Weights& weights, const OptimizerSettings& settings)
      : rule_(std::move(rule)), shard_rank_(settings.shard_rank), blocks_(weights.blocks.size()) {
    const at::ScalarType dtype = state_dtype(settings.state, weights.exact_dtype());
    std::vector<StateFormat> formats;
    for (const Elementwise::Array& array : rule_.state) formats.push_back({dtype, array.is_signed});
    storage_ = make_storage(weights, formats, settings.offload);
  }

  State state() const override {
    State state;
    for (std::size_t i = 0; i < rule_.state.size(); ++i) {
      StateArray values{rule_.state[i].name, {}}, absmax{rule_.state[i].name + ".absmax", {}, kStateGroup};
      for (std::size_t block = 0; block < blocks_; ++block) {
        const StoredArray& array = storage_->block(block)[i];
        values.blocks.push_back(array.values);
        if (array.absmax.defined()) absmax.blocks.push_back(array.absmax);
      }
      state.arrays.push_back(std::move(values));
      if (!absmax.blocks.empty()) state.arrays.push_back(std::move(absmax));
    }
    return state;
  }

 protected:
  bool update(std::size_t block, model::BlockWeights& weights, const model::BlockWeights& gradients,
              const BlockStep& step) override {
    bool copied = true;
    const std::vector<StatePart>& parts = storage_->parts();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto& [of_block, from, count] = parts[i];
      if (of_block != block) continue;
      const StoredArray own = part_of({weights.flat, {}, {}, weights.rest}, from, count);
      const RuleStep rule_step{
          step.learning_rate,  updates(),
          step.gradient_scale, step.copy.defined() ? step.copy.narrow(0, from, count) : at::Tensor(),
          step.seed,           shard_rank_ * weights.flat.numel() + from};
      std::vector<StoredArray> state = storage_->acquire(i);
      if (!update_part(own, gradients.flat.narrow(0, from, count), state, rule_step)) copied = false;
      storage_->release(i);
    }
    return copied;
  }

 private:
  // Returns true if the copy is written too.
  bool update_part(const StoredArray& weights, const at::Tensor& gradient, std::vector<StoredArray>& state,
                   const RuleStep& step) const {
    if (rule_.fused && ops::fused::supports_update(weights, gradient, state, step.copy)) {
      rule_.fused(weights, gradient, state, step);
      return true;
    }
    // Values that are not float32 are converted temporarily, a piece at a time to save memory.
    const std::int64_t count = gradient.numel(), piece = gradient.is_cpu() ? 1 << 18 : 1 << 24;
    for (std::int64_t from = 0; from < count; from += piece) {
      const std::int64_t size = std::min(piece, count - from);
      update_piece(part_of(weights, from, size), gradient.narrow(0, from, size), parts_of(state, from, size),
                   step, step.first + from);
    }
    return false;
  }

  void update_piece(StoredArray weights, const at::Tensor& gradient, std::vector<StoredArray> state,
                    const RuleStep& step, std::int64_t first) const {
    at::Tensor exact = loaded(weights);
    std::vector<at::Tensor> exact_state;
    bool rounds = is_rounded(weights);
    for (const StoredArray& array : state) {
      exact_state.push_back(loaded(array));
      rounds |= is_rounded(array);
    }
    rule_.update(exact, gradient, exact_state, step);
    const at::Tensor bits =
        rounds ? random_bits(step.seed, first, exact.numel(), exact.device()) : at::Tensor();
    store(weights, exact, bits, 0);
    for (std::size_t i = 0; i < state.size(); ++i)
      store(state[i], exact_state[i], bits, static_cast<int>(i) + 1);
  }

  Elementwise rule_;
  std::int64_t shard_rank_;
  std::size_t blocks_;
  std::unique_ptr<StateStorage> storage_;
};

// Returns the gradient in float32, with L2 weight decay added.
at::Tensor decayed(const at::Tensor& gradient, const RuleStep& step, const at::Tensor& weights, double l2) {
  const at::Tensor exact = scaled(gradient, step.gradient_scale);
  return l2 == 0 ? exact : exact.add(weights, l2);
}

ops::fused::UpdateArguments arguments_of(const RuleStep& step, double l2) {
  return {step.learning_rate, l2, step.gradient_scale, step.copy, step.seed, step.first};
}

}  // namespace

at::Tensor scaled(const at::Tensor& gradient, double scale) {
  const at::Tensor exact = gradient.to(at::kFloat);
  return scale == 1 ? exact : exact.mul(scale);
}

Elementwise rmsprop(double epsilon, double l2) {
  constexpr double kAlpha = 0.99;
  Elementwise rule{{{"square_avg", /*is_signed=*/false}}, {}, {}};
  rule.update = [=](at::Tensor& w, const at::Tensor& gradient, std::span<at::Tensor> state,
                    const RuleStep& step) {
    const at::Tensor g = decayed(gradient, step, w, l2);
    state[0].mul_(kAlpha).addcmul_(g, g, 1 - kAlpha);
    w.addcdiv_(g, state[0].sqrt().add_(epsilon), -step.learning_rate);
  };
  rule.fused = [=](const StoredArray& w, const at::Tensor& gradient, std::span<const StoredArray> state,
                   const RuleStep& step) {
    ops::fused::rmsprop(w, gradient, state[0], {arguments_of(step, l2), kAlpha, epsilon});
  };
  return rule;
}

Elementwise adam(const AdamSettings& s) {
  Elementwise rule{{{"exp_avg", /*is_signed=*/true}, {"exp_avg_sq", /*is_signed=*/false}}, {}, {}};
  rule.update = [s](at::Tensor& w, const at::Tensor& gradient, std::span<at::Tensor> state,
                    const RuleStep& step) {
    const auto t = static_cast<double>(step.update);
    const double correction1 = 1 - std::pow(s.beta1, t), correction2 = 1 - std::pow(s.beta2, t);
    const at::Tensor g = decayed(gradient, step, w, s.l2);
    if (s.decoupled != 0) w.mul_(1 - step.learning_rate * s.decoupled);
    state[0].lerp_(g, 1 - s.beta1);
    state[1].mul_(s.beta2).addcmul_(g, g, 1 - s.beta2);
    w.addcdiv_(state[0], state[1].sqrt().div_(std::sqrt(correction2)).add_(s.epsilon),
               -step.learning_rate / correction1);
  };
  rule.fused = [s](const StoredArray& w, const at::Tensor& gradient, std::span<const StoredArray> state,
                   const RuleStep& step) {
    ops::fused::adam(w, gradient, state[0], state[1],
                     {arguments_of(step, s.l2), s.decoupled, s.beta1, s.beta2, s.epsilon, step.update});
  };
  return rule;
}

Elementwise sgd(double l2) {
  return {{},
          [l2](at::Tensor& w, const at::Tensor& g, std::span<at::Tensor>, const RuleStep& step) {
            w.add_(decayed(g, step, w, l2), -step.learning_rate);
          },
          {}};
}

std::unique_ptr<Optimizer> make_elementwise(Elementwise rule, const model::Weights& weights,
                                            const OptimizerSettings& settings) {
  return std::make_unique<ElementwiseOptimizer>(std::move(rule), weights, settings);
}

}  // namespace dpo::optim
