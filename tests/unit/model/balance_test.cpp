#include "model/balance.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

namespace dpo::model {
namespace {

TEST(BalanceLoss, IsNothingWithoutTokens) {
  const BalanceLoss loss;
  EXPECT_EQ(loss.value(), 0);
  EXPECT_FALSE(loss.gradient().defined());
}

TEST(BalanceLoss, IsTheExpertsPerTokenIfAllAreUsedAlike) {
  BalanceLoss loss;
  const at::Tensor choices = at::tensor({0, 1, 2, 3, 1, 0, 3, 2}, at::kLong).view({4, 2});
  for (int layer = 0; layer < 3; ++layer) loss.add(at::full({4, 4}, 0.25), choices);
  EXPECT_NEAR(loss.value(), 2, 1e-6);
}

// Two layers of two tokens and three experts, of which each token takes one. The experts are chosen 3, 1 and
// 0 times, with probabilities that add up to 2.2, 1.2 and 0.6. The loss is 3 * (3 * 2.2 + 1 * 1.2) / (4 * 4).
TEST(BalanceLoss, WeightsProbabilitiesByChoices) {
  BalanceLoss loss;
  loss.add(at::tensor({0.5, 0.3, 0.2, 0.7, 0.2, 0.1}, at::kFloat).view({2, 3}),
           at::tensor({0, 0}, at::kLong).view({2, 1}));
  loss.add(at::tensor({0.1, 0.6, 0.3, 0.9, 0.1, 0.0}, at::kFloat).view({2, 3}),
           at::tensor({1, 0}, at::kLong).view({2, 1}));
  EXPECT_NEAR(loss.value(), 3 * (3 * 2.2 + 1.2) / 16, 1e-6);
  const at::Tensor gradient = loss.gradient();
  const int times[] = {3, 1, 0};
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(gradient[i].item<double>(), 3.0 * times[i] / 16, 1e-7) << i;
}

}  // namespace
}  // namespace dpo::model
