#include "ops/linear.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "unit/ops/compare.h"

namespace dpo::ops {
namespace {

class Linear : public testing::TestWithParam<at::DeviceType> {
 protected:
  void SetUp() override {
    if (GetParam() == at::kCUDA && !has_gpu()) GTEST_SKIP() << "no GPU";
  }
  at::TensorOptions options(at::ScalarType type) const {
    return at::TensorOptions().device(GetParam()).dtype(type);
  }
};

INSTANTIATE_TEST_SUITE_P(On, Linear, testing::Values(at::kCPU, at::kCUDA),
                         [](const auto& of) { return c10::DeviceTypeName(of.param); });

struct LinearProblem {
  at::Tensor x, weight, bias, grad;

  LinearProblem(at::TensorOptions options, bool transposed, bool with_bias)
      : x(at::randn({33, 24}, options).requires_grad_()),
        weight(at::randn(transposed ? at::IntArrayRef{24, 40} : at::IntArrayRef{40, 24}, options)
                   .requires_grad_()),
        grad(at::randn({33, 40}, options)) {
    if (with_bias) bias = at::randn({40}, options).requires_grad_();
  }

  std::vector<at::Tensor> gradients_of(const at::Tensor& y) const {
    std::vector<at::Tensor> inputs{x, weight};
    if (bias.defined()) inputs.push_back(bias);
    return torch::autograd::grad({y}, inputs, {grad}, /*retain_graph=*/false, /*create_graph=*/false,
                                 /*allow_unused=*/true);
  }
};

// Checks a sum of the weight's dtype and of float32, which is first replaced and then added to.
TEST_P(Linear, AddsTheGradientOfItsWeightToTheSum) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const at::ScalarType sum_type : {at::kFloat, type})
      for (const bool transposed : {false, true})
        for (const bool with_bias : {false, true}) {
          const LinearProblem problem(options(type), transposed, with_bias);
          const at::Tensor matrix = transposed ? problem.weight.t() : problem.weight;
          const at::Tensor expected_y = at::linear(problem.x, matrix, problem.bias);
          const std::vector<at::Tensor> expected = problem.gradients_of(expected_y);
          const auto sum = std::make_shared<GradientSum>();
          const auto run = [&] {
            const at::Tensor y = linear(problem.x, problem.weight, problem.bias, transposed, sum);
            EXPECT_LT(relative_error(y, expected_y), 1e-5);
            return problem.gradients_of(y);
          };
          const double tolerance = type == at::kFloat ? 1e-5 : 1e-2;
          std::vector<at::Tensor> found = run();  // without a tensor, autograd computes it
          for (std::size_t i = 0; i < expected.size(); ++i)
            EXPECT_LT(relative_error(found[i], expected[i]), tolerance);

          const at::Tensor before = at::randn(problem.weight.sizes(), options(sum_type));
          *sum = {before.clone(), std::make_shared<bool>(true)};
          found = run();
          EXPECT_FALSE(found[1].defined());
          EXPECT_FALSE(*sum->overwrite);
          EXPECT_LT(relative_error(found[0], expected[0]), tolerance);
          EXPECT_LT(relative_error(sum->tensor, expected[1]), tolerance);
          run();
          EXPECT_LT(relative_error(sum->tensor, 2 * expected[1].to(at::kFloat)), tolerance);
          *sum = {before.clone()};
          run();
          EXPECT_LT(relative_error(sum->tensor, expected[1].to(at::kFloat) + before), tolerance);
        }
}

// Checks that adding to several sums at a time equals adding to each: first and further summands, dense or
// not, and none.
void check_add_each(const at::TensorOptions& options, at::ScalarType dtype) {
  std::vector<at::Tensor> gradients, expected, found;
  std::vector<GradientSum> sums;
  for (const bool overwrite : {false, true})
    for (const std::int64_t size : {1, 5, 300}) {
      const at::Tensor dense = at::randn({8, size}, options.dtype(at::kBFloat16));
      for (const at::Tensor& gradient :
           {dense, dense.t(), dense.select(1, 0), dense.sum(0).expand({3, size})}) {
        gradients.push_back(gradient);
        found.push_back(at::randn(gradient.sizes(), options.dtype(dtype)));
        expected.push_back(found.back().clone());
        sums.push_back({found.back(), std::make_shared<bool>(overwrite)});
        GradientSum{expected.back(), std::make_shared<bool>(overwrite)}.add(gradient);
      }
    }
  gradients.emplace_back();  // undefined
  expected.push_back(at::ones({4}, options.dtype(dtype)));
  found.push_back(expected.back().clone());
  sums.push_back({found.back(), std::make_shared<bool>(true)});
  std::vector<GradientSum*> all;
  for (GradientSum& sum : sums) all.push_back(&sum);
  GradientSum::add_each(all, gradients);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(at::equal(found[i], expected[i])) << i;
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(*sums[i].overwrite, i + 1 == found.size()) << i;
}

TEST(GradientSum, AddsToEach) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) check_add_each(at::kCPU, dtype);
}
TEST(GradientSum, OnCudaAddsToEach) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) check_add_each(at::kCUDA, dtype);
}

// Gradients may be reduced in a lower precision than they are computed in.
TEST(GradientSum, TakesProductsOfAnyDtype) {
  for (const at::Device device : {at::Device(at::kCPU), at::Device(at::kCUDA)}) {
    if (device.is_cuda() && !has_gpu()) continue;
    for (const at::ScalarType of_sum : {at::kFloat, at::kBFloat16, at::kHalf})
      for (const at::ScalarType of_product : {at::kFloat, at::kBFloat16, at::kHalf}) {
        const auto options = at::TensorOptions(device);
        const at::Tensor a = at::randn({16, 8}, options.dtype(of_product)),
                         b = at::randn({16, 24}, options.dtype(of_product));
        GradientSum sum{at::ones({8, 24}, options.dtype(of_sum)), std::make_shared<bool>(true)};
        const at::Tensor product = a.to(at::kDouble).t().mm(b.to(at::kDouble));
        sum.add_matmul(a, b);
        EXPECT_LT(relative_error(sum.tensor, product), 1e-2);
        sum.add_matmul(a, b);
        EXPECT_LT(relative_error(sum.tensor, 2 * product), 1e-2);
      }
  }
}

}  // namespace
}  // namespace dpo::ops
