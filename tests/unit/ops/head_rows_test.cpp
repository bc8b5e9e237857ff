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

class HeadRows : public testing::TestWithParam<at::DeviceType> {
 protected:
  void SetUp() override {
    if (GetParam() == at::kCUDA && !has_gpu()) GTEST_SKIP() << "no GPU";
  }
  at::Device device() const { return GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(On, HeadRows, testing::Values(at::kCPU, at::kCUDA),
                         [](const auto& of) { return c10::DeviceTypeName(of.param); });

// Random logits of kRows rows, with their targets and scales.
struct Rows {
  at::Tensor logits, targets, scale;

  Rows(at::Device device, at::ScalarType type, std::int64_t vocabulary, double spread)
      : logits((at::randn({kRows, vocabulary}) * spread).to(device, type)),
        targets(at::randint(vocabulary, {kRows}, at::kLong).to(device)),
        scale(at::randn({kRows}).to(device)) {}

  // Computes in float64.
  at::Tensor exact_log_softmax(double cap = 0) const {
    return at::log_softmax(capped(logits.to(at::kDouble), cap), 1);
  }
  at::Tensor exact_gradient(double cap = 0) const {
    const at::Tensor by_capped = scale.unsqueeze(1) * (at::one_hot(targets, logits.size(1)).to(at::kDouble) -
                                                       exact_log_softmax(cap).exp());
    if (cap == 0) return by_capped;
    return by_capped * (1 - (capped(logits.to(at::kDouble), cap) / cap).square());
  }
};

double most(const at::Tensor& difference) { return difference.abs().max().item<double>(); }

// Returns slightly more than the rounding of the largest number to bfloat16.
double rounding_of(const at::Tensor& exact) { return 1.1 / 256 * most(exact) + 1e-6; }

// The sizes are around the widths of the loops, so that rows begin at any address. The logits are from close
// together to far apart, where the rounding of the logarithm to float32 limits the accuracy.
TEST_P(HeadRows, AreLogSoftmaxAndItsGradient) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t vocabulary : {1, 2, 15, 16, 17, 1023, 1024, 1025, 5000, 40'003})
      for (const double spread : {0.1, 3.0, 60.0}) {
        const Rows rows(device(), type, vocabulary, spread);
        const at::Tensor exact = rows.exact_log_softmax(), expected_gradient = rows.exact_gradient();
        const RowScores found = scored(rows.logits, rows.targets);
        const at::Tensor expected = exact.gather(1, rows.targets.unsqueeze(1)).squeeze(1);
        EXPECT_LT(most(found.log_probs - expected), 2e-6 * std::max(1.0, 5 * spread))
            << device() << ' ' << vocabulary << ' ' << spread;
        const at::Tensor gradient = score_rows_backward(rows.logits, rows.targets, found.lse, rows.scale);
        EXPECT_LT(most(gradient.to(at::kDouble) - expected_gradient),
                  type == at::kFloat ? 2e-6 * std::max(1.0, spread) : rounding_of(expected_gradient))
            << device() << ' ' << vocabulary << ' ' << spread;
      }
}

TEST_P(HeadRows, HaveAnEntropy) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t vocabulary : {1, 17, 5000}) {
      const Rows rows(device(), type, vocabulary, 3);
      const at::Tensor exact = rows.exact_log_softmax();
      at::Tensor logits = rows.logits.clone();
      const RowScores found = score_rows(logits, rows.targets, /*with_entropy=*/true);
      EXPECT_LT(most(found.entropy + (exact.exp() * exact).sum(1)), 1e-5) << device() << ' ' << vocabulary;
      if (vocabulary == 1) continue;
      logits.copy_(rows.logits).narrow(1, 1, vocabulary - 1).fill_(-std::numeric_limits<double>::infinity());
      EXPECT_EQ(most(score_rows(logits, rows.targets, /*with_entropy=*/true).entropy), 0);
    }
}

// The logits are up to several times the cap.
TEST_P(HeadRows, AreCapped) {
  constexpr double kCap = 5;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Rows rows(device(), type, 1025, 8);
    const at::Tensor exact = rows.exact_log_softmax(kCap), expected_gradient = rows.exact_gradient(kCap);
    const RowScores found = score_rows(rows.logits.clone(), rows.targets, /*with_entropy=*/false, kCap);
    EXPECT_LT(most(found.log_probs - exact.gather(1, rows.targets.unsqueeze(1)).squeeze(1)), 1e-5);
    const at::Tensor gradient =
        score_rows_backward(rows.logits.clone(), rows.targets, found.lse, rows.scale, std::nullopt, kCap);
    EXPECT_LT(most(gradient.to(at::kDouble) - expected_gradient),
              type == at::kFloat ? 1e-5 : rounding_of(expected_gradient));
  }
}

TEST_P(HeadRows, NanStaysNan) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const double bad : {inf, std::nan("")}) {
      at::Tensor logits = at::randn({kRows, 100}).to(type);
      logits[3][50] = bad;
      logits = logits.to(device());
      const at::Tensor targets = at::randint(50, {kRows}, at::kLong).to(device());
      const RowScores found = scored(logits, targets);
      EXPECT_TRUE(std::isnan(found.log_probs[3].item<double>())) << bad;
      EXPECT_TRUE(std::isfinite(found.log_probs[4].item<double>()));
      const at::Tensor gradient =
          score_rows_backward(logits, targets, found.lse, at::randn({kRows}).to(device()));
      EXPECT_TRUE(std::isnan(gradient[3][0].item<double>()));
      EXPECT_TRUE(std::isfinite(gradient[4].to(at::kFloat).sum().item<double>()));
    }
}

// Checks that the results that ranks compute from their shards, combined, equal those that one rank computes
// from the whole vocabulary.
void check_shards(at::Device where, at::ScalarType type, double tolerance) {
  constexpr std::int64_t kFirst = 60, kAll = 100;
  const Rows rows(where, type, kAll, 1);
  const at::Tensor scale = type == at::kDouble ? rows.scale.to(at::kDouble) : rows.scale;
  const RowScores whole = scored(rows.logits.clone(), rows.targets);
  const auto shard = [&](std::int64_t begin, std::int64_t end) {
    return rows.logits.narrow(1, begin, end - begin).contiguous();
  };
  const ShardScores one = score_shard_rows(shard(0, kFirst), rows.targets, 0);
  const ShardScores other = score_shard_rows(shard(kFirst, kAll), rows.targets, kFirst);
  EXPECT_LT(relative_error(at::logaddexp(one.lse, other.lse), whole.lse), tolerance);
  EXPECT_LT(relative_error(one.target_logits + other.target_logits - whole.lse, whole.log_probs), tolerance);
  const at::Tensor gradients =
      at::cat({score_rows_backward(shard(0, kFirst), rows.targets, whole.lse, scale, 0),
               score_rows_backward(shard(kFirst, kAll), rows.targets, whole.lse, scale, kFirst)},
              1);
  EXPECT_TRUE(gradients.equal(score_rows_backward(rows.logits.clone(), rows.targets, whole.lse, scale)));
}

TEST_P(HeadRows, OfShardsAreThoseOfTheWhole) {
  check_shards(device(), at::kDouble, 1e-12);
  check_shards(device(), at::kFloat, 1e-6);
  check_shards(device(), at::kBFloat16, 1e-6);
}

TEST_P(HeadRows, MaskedLogitsCountNothing) {
  at::Tensor logits = at::randn({kRows, 100}).to(device());
  const at::Tensor without = logits.narrow(1, 0, 40).contiguous();
  logits.narrow(1, 40, 60).fill_(-std::numeric_limits<double>::infinity());
  const at::Tensor targets = at::randint(40, {kRows}, at::kLong).to(device());
  EXPECT_LT(relative_error(scored(logits, targets).log_probs, scored(without, targets).log_probs), 1e-6);
}

}  // namespace
}  // namespace dpo::ops
