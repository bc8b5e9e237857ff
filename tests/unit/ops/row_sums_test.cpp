#include "ops/row_sums.h"

#include <random>

#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/fused.h"
#include "ops/upload.h"
#include "unit/ops/compare.h"

namespace dpo::ops {
namespace {

// Returns row numbers: a frequent one, many that occur once, and some that never occur.
std::vector<std::int32_t> random_numbers(std::int32_t rows, std::size_t count) {
  std::mt19937 random(count);
  std::vector<std::int32_t> numbers(count);
  for (std::int32_t& number : numbers)
    number = random() % 4 == 0 ? rows / 2 : static_cast<std::int32_t>(random() % static_cast<unsigned>(rows));
  return numbers;
}

TEST(RowSums, ListsHaveEveryPlaceOfItsRowInOrder) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}}) {
    const std::vector<std::int32_t> numbers = random_numbers(300, count);
    const RowSumLists lists = make_row_sums(numbers);
    ASSERT_EQ(lists.starts.size(), lists.rows.size() + 1);
    EXPECT_EQ(lists.source_rows.size(), count);
    EXPECT_EQ(lists.starts.back(), count);
    for (std::size_t i = 0; i < lists.rows.size(); ++i) {
      EXPECT_TRUE(i == 0 || lists.rows[i - 1] < lists.rows[i]);
      EXPECT_LT(lists.starts[i], lists.starts[i + 1]);
      for (std::int32_t at = lists.starts[i]; at < lists.starts[i + 1]; ++at) {
        const auto place = static_cast<std::size_t>(at);
        EXPECT_EQ(numbers[static_cast<std::size_t>(lists.source_rows[place])], lists.rows[i]);
        EXPECT_TRUE(at == lists.starts[i] || lists.source_rows[place - 1] < lists.source_rows[place]);
      }
    }
  }
}

struct Selection {
  at::Tensor matrix, numbers, gradient;
  RowSums sums;

  Selection(at::Device device, at::ScalarType type, std::int32_t rows, std::int64_t width,
            std::size_t count) {
    const std::vector<std::int32_t> list = random_numbers(rows, count);
    const RowSumLists lists = make_row_sums(list);
    const auto on_device = [&](const std::vector<std::int32_t>& values) {
      return upload(at::tensor(values, at::kInt), device);
    };
    const auto options = at::TensorOptions().device(device).dtype(type);
    matrix = at::randn({rows, width}, options).requires_grad_();
    numbers = on_device(list).to(at::kLong);
    gradient = at::randn({static_cast<std::int64_t>(count), width}, options);
    sums = {on_device(lists.rows), on_device(lists.starts), on_device(lists.source_rows)};
  }

  at::Tensor exact_gradient() const {
    return at::zeros(matrix.sizes(), matrix.options().dtype(at::kDouble))
        .index_add_(0, numbers, gradient.to(at::kDouble));
  }
  // Returns an undefined gradient if it was added to the sum.
  at::Tensor gradient_with(const std::shared_ptr<GradientSum>& sum) const {
    const at::Tensor selected = select_rows(matrix, numbers, sums, sum);
    EXPECT_TRUE(selected.equal(at::embedding(matrix, numbers)));
    return torch::autograd::grad({selected}, {matrix}, {gradient}, /*retain_graph=*/false,
                                 /*create_graph=*/false, /*allow_unused=*/true)[0];
  }
};

void check_selection(at::Device device, at::ScalarType type, std::int64_t width, double tolerance) {
  const Selection selection(device, type, 300, width, 2000);
  const at::Tensor exact = selection.exact_gradient();
  EXPECT_LT(relative_error(selection.gradient_with({}), exact), tolerance);
  for (const bool overwrite : {false, true}) {
    const auto sum = std::make_shared<GradientSum>();
    sum->tensor = at::full(exact.sizes(), 2, exact.options().dtype(at::kFloat));
    sum->overwrite = std::make_shared<bool>(overwrite);
    EXPECT_FALSE(selection.gradient_with(sum).defined());
    EXPECT_FALSE(*sum->overwrite);
    EXPECT_LT(relative_error(sum->tensor, overwrite ? exact : exact + 2), tolerance);
    const at::Tensor once = sum->tensor.clone();
    sum->tensor.fill_(overwrite ? 0 : 2);
    selection.gradient_with(sum);
    EXPECT_TRUE(sum->tensor.equal(once));  // the same bits
  }
}

TEST(RowSums, GradientsAreExact) {
  check_selection(at::kCPU, at::kFloat, 24, 1e-6);
  check_selection(at::kCPU, at::kDouble, 24, 1e-6);
}

TEST(RowSums, OnCuda) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (const std::int64_t width : {8, 24, 256, 264, 1536, 7}) {
    check_selection(at::kCUDA, at::kFloat, width, 1e-6);
    check_selection(at::kCUDA, at::kBFloat16, width, 1e-2);
    check_selection(at::kCUDA, at::kHalf, width, 1e-2);
  }
}

// For 16-bit gradients, the sums are computed in float32 and rounded once.
TEST(RowSums, OnCudaAreRoundedOnce) {
  if (!has_gpu() || !fused::has_kernels()) GTEST_SKIP() << "no GPU, or no kernels of our own";
  const Selection selection(at::kCUDA, at::kBFloat16, 300, 64, 5000);
  const auto sum = std::make_shared<GradientSum>();
  sum->tensor = at::zeros({300, 64}, selection.matrix.options().dtype(at::kFloat));
  selection.gradient_with(sum);
  EXPECT_LT(relative_error(sum->tensor, selection.exact_gradient()), 1e-6);
  EXPECT_TRUE(selection.gradient_with({}).equal(sum->tensor.to(at::kBFloat16)));
}

}  // namespace
}  // namespace dpo::ops
