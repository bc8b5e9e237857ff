#include "model/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

namespace dpo::model {
namespace {

constexpr std::size_t kCount = 200;

// Returns logits like those of a model: many unlikely tokens and a few likely ones.
std::vector<float> some_logits(std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(kCount);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

std::vector<double> softmax(const std::vector<float>& logits) {
  std::vector<double> result;
  double sum = 0;
  for (const float logit : logits) sum += result.emplace_back(std::exp(static_cast<double>(logit)));
  for (double& each : result) each /= sum;
  return result;
}

std::vector<float> filtered(const std::vector<float>& logits, const SamplingOptions& options) {
  const at::Tensor rows = at::tensor(logits).unsqueeze(0);
  const at::Tensor left = filter_logits(rows, options)[0].contiguous();
  return {left.const_data_ptr<float>(), left.const_data_ptr<float>() + left.numel()};
}

std::vector<std::size_t> by_likelihood(const std::vector<float>& logits) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  return order;
}

// Expects that exactly the first `count` tokens by likelihood are left, unchanged.
void expect_first(const std::vector<float>& logits, const std::vector<float>& left, std::size_t count) {
  const std::vector<std::size_t> order = by_likelihood(logits);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i < count)
      EXPECT_EQ(left[order[i]], logits[order[i]]) << i;
    else
      EXPECT_EQ(left[order[i]], -INFINITY) << i;
  }
}

TEST(Sampling, TopKKeepsTheLikeliest) {
  const std::vector<float> logits = some_logits(1);
  for (const std::int64_t k : {1, 7, 200, 1000})
    expect_first(logits, filtered(logits, {.top_k = k}), std::min<std::size_t>(k, kCount));
}

TEST(Sampling, TopPKeepsTheFewestThatReachIt) {
  const std::vector<float> logits = some_logits(2);
  const std::vector<double> p = softmax(logits);
  for (const double wanted : {0.01, 0.3, 0.9, 0.99}) {
    std::size_t count = 0;
    double sum = 0;
    for (const std::size_t token : by_likelihood(logits)) {
      if (sum >= wanted) break;
      sum += p[token];
      ++count;
    }
    expect_first(logits, filtered(logits, {.top_p = wanted}), count);
  }
}

TEST(Sampling, MinPKeepsWhatIsNotMuchLessLikelyThanTheBest) {
  const std::vector<float> logits = some_logits(3);
  const std::vector<double> p = softmax(logits);
  const double best = *std::ranges::max_element(p);
  for (const double share : {0.001, 0.1, 1.0}) {
    const auto count = std::ranges::count_if(p, [&](double each) { return each >= share * best; });
    expect_first(logits, filtered(logits, {.min_p = share}), static_cast<std::size_t>(count));
  }
}

TEST(Sampling, TemperatureDividesBeforeTopP) {
  const std::vector<float> logits = some_logits(4);
  std::vector<float> divided = logits;
  for (float& logit : divided) logit /= 2.5F;
  EXPECT_EQ(filtered(logits, {.temperature = 2.5, .top_p = 0.8}), filtered(divided, {.top_p = 0.8}));
  EXPECT_NE(filtered(logits, {.temperature = 2.5, .top_p = 0.8}), filtered(logits, {.top_p = 0.8}));
}

TEST(Sampling, RepetitionPenaltyMakesSeenTokensLessLikely) {
  const at::Tensor logits = at::tensor({2.0F, -1.0F, 3.0F, 0.0F}).unsqueeze(0);
  const at::Tensor seen = at::tensor({1, 1, 0, 1}, at::kInt).to(at::kBool).unsqueeze(0);
  const at::Tensor left = penalize_repetition(logits, seen, 2);
  EXPECT_TRUE(left.equal(at::tensor({1.0F, -2.0F, 3.0F, 0.0F}).unsqueeze(0)));
}

TEST(Sampling, DrawsByTheSumOfProbabilities) {
  // Probabilities 1/2, 0, 1/4, 1/4.
  const at::Tensor row = at::tensor({0.5F, 0.0F, 0.25F, 0.25F}).log();
  const std::vector<double> numbers = {0, 0.4999, 0.5001, 0.7499, 0.7501, 1 - 0x1p-53};
  const at::Tensor tokens = draw_tokens(row.unsqueeze(0).repeat({6, 1}), numbers);
  EXPECT_TRUE(tokens.equal(at::tensor({0, 0, 2, 2, 3, 3}, at::kLong)));
}

TEST(Sampling, NeverDrawsMaskedTokens) {
  const at::Tensor row = at::tensor({-INFINITY, 0.0F, -INFINITY});
  const std::vector<double> numbers = {0, 0.5, 1 - 0x1p-53};
  EXPECT_TRUE(draw_tokens(row.unsqueeze(0).repeat({3, 1}), numbers).equal(at::tensor({1, 1, 1}, at::kLong)));
}

TEST(Sampling, StreamsDiffer) {
  const double first = RandomStream(1, 2, 3).next();
  EXPECT_EQ(first, RandomStream(1, 2, 3).next());
  EXPECT_NE(first, RandomStream(0, 2, 3).next());
  EXPECT_NE(first, RandomStream(1, 0, 3).next());
  EXPECT_NE(first, RandomStream(1, 3, 2).next());
  EXPECT_NE(first, RandomStream(1, 2, 4).next());
}

}  // namespace
}  // namespace dpo::model
