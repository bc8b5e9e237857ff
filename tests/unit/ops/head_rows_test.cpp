#include "ops/head_rows.h"

#include <cmath>
#include <limits>

#include <ATen/ops/empty.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "unit/ops/compare.h"

namespace dpo::ops {
namespace {

constexpr std::int64_t kRows = 19;

struct Scored {
  at::Tensor lse = at::empty({kRows}), log_probs = at::empty({kRows});
};

Scored scored(const at::Tensor& logits, const at::Tensor& targets) {
  Scored result;
  score_rows(logits, targets, result.lse, result.log_probs);
  return result;
}

// Sizes around the widths of the loops; logits from close together to far apart, where the rounding of the
// logarithm to float32 is what limits the rest.
TEST(HeadRows, AreLogSoftmaxAndItsGradient) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t vocabulary : {1, 2, 15, 16, 17, 1023, 1024, 1025, 5000})
      for (const double spread : {0.1, 3.0, 60.0}) {
        at::Tensor logits = (at::randn({kRows, vocabulary}) * spread).to(type);
        const at::Tensor targets = at::randint(vocabulary, {kRows}, at::kLong), scale = at::randn({kRows});
        const at::Tensor exact = at::log_softmax(logits.to(at::kDouble), 1);
        const Scored found = scored(logits, targets);
        const at::Tensor expected = exact.gather(1, targets.unsqueeze(1)).squeeze(1);
        EXPECT_LT((found.log_probs - expected).abs().max().item<double>(), 1e-6 * std::max(1.0, 10 * spread))
            << vocabulary << ' ' << spread;
        score_rows_backward(logits, targets, found.lse, scale);
        const at::Tensor gradient =
            scale.unsqueeze(1) * (at::one_hot(targets, vocabulary).to(at::kDouble) - exact.exp());
        EXPECT_LT((logits.to(at::kDouble) - gradient).abs().max().item<double>(),
                  type == at::kFloat ? 1e-6 * std::max(1.0, spread) : 1.5e-2)
            << vocabulary << ' ' << spread;
      }
}

TEST(HeadRows, NanStaysNan) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const double bad : {inf, std::nan("")}) {
      at::Tensor logits = at::randn({kRows, 100}).to(type);
      logits[3][50] = bad;
      const at::Tensor targets = at::randint(50, {kRows}, at::kLong);
      const Scored found = scored(logits, targets);
      EXPECT_TRUE(std::isnan(found.log_probs[3].item<double>())) << bad;
      EXPECT_TRUE(std::isfinite(found.log_probs[4].item<double>()));
      score_rows_backward(logits, targets, found.lse, at::randn({kRows}));
      EXPECT_TRUE(std::isnan(logits[3][0].item<double>()));
      EXPECT_TRUE(std::isfinite(logits[4].to(at::kFloat).sum().item<double>()));
    }
}

TEST(HeadRows, MaskedLogitsCountNothing) {
  at::Tensor logits = at::randn({kRows, 100});
  const at::Tensor without = logits.narrow(1, 0, 40).contiguous();
  logits.narrow(1, 40, 60).fill_(-std::numeric_limits<double>::infinity());
  const at::Tensor targets = at::randint(40, {kRows}, at::kLong);
  EXPECT_LT(relative_error(scored(logits, targets).log_probs, scored(without, targets).log_probs), 1e-6);
}

}  // namespace
}  // namespace dpo::ops
