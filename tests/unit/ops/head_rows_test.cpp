#include "ops/head_rows.h"

#include <cmath>
#include <limits>

#include <ATen/ops/cat.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "unit/ops/compare.h"

namespace dpo::ops {
namespace {

constexpr std::int64_t kRows = 19;

RowScores scored(const at::Tensor& logits, const at::Tensor& targets) {
  return score_rows(logits, targets, /*with_entropy=*/false);
}

// Sizes around the widths of the loops; logits from close together to far apart, where the rounding of the
// logarithm to float32 is what limits the rest.
TEST(HeadRows, AreLogSoftmaxAndItsGradient) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t vocabulary : {1, 2, 15, 16, 17, 1023, 1024, 1025, 5000})
      for (const double spread : {0.1, 3.0, 60.0}) {
        const at::Tensor logits = (at::randn({kRows, vocabulary}) * spread).to(type);
        const at::Tensor targets = at::randint(vocabulary, {kRows}, at::kLong), scale = at::randn({kRows});
        const at::Tensor exact = at::log_softmax(logits.to(at::kDouble), 1);
        const RowScores found = scored(logits, targets);
        const at::Tensor expected = exact.gather(1, targets.unsqueeze(1)).squeeze(1);
        EXPECT_LT((found.log_probs - expected).abs().max().item<double>(), 1e-6 * std::max(1.0, 10 * spread))
            << vocabulary << ' ' << spread;
        const at::Tensor gradient = score_rows_backward(logits, targets, found.lse, scale);
        const at::Tensor expected_gradient =
            scale.unsqueeze(1) * (at::one_hot(targets, vocabulary).to(at::kDouble) - exact.exp());
        EXPECT_LT((gradient.to(at::kDouble) - expected_gradient).abs().max().item<double>(),
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
      const RowScores found = scored(logits, targets);
      EXPECT_TRUE(std::isnan(found.log_probs[3].item<double>())) << bad;
      EXPECT_TRUE(std::isfinite(found.log_probs[4].item<double>()));
      const at::Tensor gradient = score_rows_backward(logits, targets, found.lse, at::randn({kRows}));
      EXPECT_TRUE(std::isnan(gradient[3][0].item<double>()));
      EXPECT_TRUE(std::isfinite(gradient[4].to(at::kFloat).sum().item<double>()));
    }
}

// What ranks compute of their shards, combined, is what one computes of the whole vocabulary.
TEST(HeadRows, OfShardsAreThoseOfTheWhole) {
  constexpr std::int64_t kFirst = 60, kAll = 100;
  const at::Tensor logits = at::randn({kRows, kAll}, at::kDouble);
  const at::Tensor targets = at::randint(kAll, {kRows}, at::kLong), scale = at::randn({kRows}, at::kDouble);
  const RowScores whole = scored(logits.clone(), targets);
  const auto shard = [&](std::int64_t begin, std::int64_t end) {
    return logits.narrow(1, begin, end - begin).contiguous();
  };
  const ShardScores one = score_shard_rows(shard(0, kFirst), targets, 0);
  const ShardScores other = score_shard_rows(shard(kFirst, kAll), targets, kFirst);
  EXPECT_LT(relative_error(at::logaddexp(one.lse, other.lse), whole.lse), 1e-12);
  EXPECT_LT(relative_error(one.target_logits + other.target_logits - whole.lse, whole.log_probs), 1e-12);
  const at::Tensor gradients =
      at::cat({score_rows_backward(shard(0, kFirst), targets, whole.lse, scale, 0),
               score_rows_backward(shard(kFirst, kAll), targets, whole.lse, scale, kFirst)},
              1);
  EXPECT_TRUE(gradients.equal(score_rows_backward(logits.clone(), targets, whole.lse, scale)));
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
