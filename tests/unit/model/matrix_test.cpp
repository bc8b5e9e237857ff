#include "model/matrix.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/weights.h"

namespace dpo::model {
namespace {

constexpr std::int64_t kTokens = 5, kIn = 6, kOut = 4, kRank = 2;

Matrix random_matrix(bool transposed = false) {
  Matrix matrix{transposed ? at::randn({kIn, kOut}) : at::randn({kOut, kIn}), transposed};
  matrix.lora = Lora{.a = at::randn({kRank, kIn}), .b = at::randn({kOut, kRank}), .scale = 0.5};
  return matrix;
}

at::Tensor sum_by_hand(const Matrix& matrix) {
  const at::Tensor rows = matrix.transposed ? matrix.weight.t() : matrix.weight;
  return rows + 0.5 * matrix.lora->b.mm(matrix.lora->a);
}

TEST(Linear, AddsTheProductWithLora) {
  const at::Tensor x = at::randn({kTokens, kIn}), bias = at::randn({kOut});
  for (const bool transposed : {false, true}) {
    const Matrix matrix = random_matrix(transposed);
    const at::Tensor expected = x.mm(sum_by_hand(matrix).t());
    EXPECT_TRUE(at::allclose(linear(x, matrix), expected, 1e-5, 1e-6));
    EXPECT_TRUE(at::allclose(linear(x, matrix, bias), expected + bias, 1e-5, 1e-6));
    const at::Tensor whole = merged(matrix);
    EXPECT_TRUE(at::allclose(linear(x, {whole, transposed}), expected, 1e-5, 1e-6));
  }
}

TEST(Linear, IsTheBasesOwnWhileBIsZero) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const at::Tensor x = at::randn({kTokens, kIn}).to(type), bias = at::randn({kOut}).to(type);
    Matrix matrix{at::randn({kOut, kIn}).to(type)};
    const at::Tensor norms = row_norms(matrix).to(type);
    matrix.lora = Lora{.a = at::randn({kRank, kIn}).to(type), .b = at::zeros({kOut, kRank}, type)};
    for (const bool dora : {false, true}) {
      if (dora) matrix.lora->magnitude = norms;
      for (const double rate : {0.0, 0.5}) {
        matrix.lora->dropout = {rate, 7};
        EXPECT_TRUE(at::equal(linear(x, matrix, bias), linear(x, Matrix{matrix.weight}, bias)));
        EXPECT_TRUE(at::equal(linear(x, matrix), linear(x, Matrix{matrix.weight})));
      }
    }
  }
}

TEST(Linear, HasGradientsOfLoraAndInputOnly) {
  const at::Tensor x = at::randn({kTokens, kIn}).requires_grad_();
  const at::Tensor out = at::randn({kTokens, kOut});
  Matrix matrix = random_matrix();
  matrix.lora->a.requires_grad_();
  matrix.lora->b.requires_grad_();
  const auto found = torch::autograd::grad({linear(x, matrix)}, {x, matrix.lora->a, matrix.lora->b}, {out});
  EXPECT_TRUE(at::allclose(found[0], out.mm(sum_by_hand(matrix)), 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(found[1], 0.5 * matrix.lora->b.t().mm(out.t()).mm(x), 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(found[2], 0.5 * out.t().mm(x.mm(matrix.lora->a.t())), 1e-5, 1e-5));
}

TEST(Linear, OfSeveralMatricesIsThatOfEach) {
  const at::Tensor x = at::randn({kTokens, kIn}), bias = at::randn({kOut});
  std::vector<Matrix> matrices = {random_matrix(), random_matrix(), random_matrix()};
  const auto expect_same = [&] {
    const std::vector<at::Tensor> all = linear_each(x, matrices, {bias, {}, bias});
    ASSERT_EQ(all.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(at::allclose(all[i], linear(x, matrices[i], i == 1 ? at::Tensor() : bias), 1e-5, 1e-6))
          << i;
  };
  expect_same();
  matrices[1].lora.reset();  // not all have LoRA
  expect_same();
}

TEST(Linear, ScalesTheRowsWithDora) {
  const at::Tensor x = at::randn({kTokens, kIn}), bias = at::randn({kOut});
  Matrix matrix = random_matrix();
  matrix.lora->magnitude = at::randn({kOut});
  const at::Tensor sum = sum_by_hand(matrix);
  const at::Tensor gain = matrix.lora->magnitude / sum.norm(2, 1);
  EXPECT_TRUE(at::allclose(linear(x, matrix, bias), x.mm(sum.t()) * gain + bias, 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(merged(matrix), sum * gain.unsqueeze(1), 1e-5, 1e-5));
  EXPECT_TRUE(at::allclose(row_norms(matrix), sum.norm(2, 1), 1e-5, 1e-5));
}

TEST(Linear, DropsTheSameElementsForASeed) {
  const at::Tensor x = at::randn({64, kIn});
  Matrix matrix = random_matrix();
  matrix.lora->dropout = {0.25, 7};
  const at::Tensor first = linear(x, matrix);
  EXPECT_TRUE(at::equal(linear(x, matrix), first));
  matrix.lora->dropout.seed = 8;
  EXPECT_FALSE(at::equal(linear(x, matrix), first));
  // The mean over seeds approaches the matmul without dropout.
  at::Tensor sum = at::zeros({64, kOut});
  constexpr int kSeeds = 2000;
  for (int seed = 0; seed < kSeeds; ++seed) {
    matrix.lora->dropout.seed = static_cast<std::uint64_t>(seed);
    sum += linear(x, matrix);
  }
  matrix.lora->dropout.rate = 0;
  EXPECT_LT((sum / kSeeds - linear(x, matrix)).abs().max().item<double>(), 0.5);
}

TEST(BlockWeights, FindLoraNextToAMatrix) {
  BlockWeights block;
  block.operands = {{"proj.weight", at::randn({kOut, kIn})},
                    {"other.weight", at::randn({kOut, kIn})},
                    {"proj.lora_A.weight", at::randn({kRank, kIn})},
                    {"proj.lora_B.weight", at::randn({kOut, kRank}), false, 0.5}};
  EXPECT_FALSE(block.matrix("other").lora);
  ASSERT_TRUE(block.matrix("proj").lora);
  EXPECT_EQ(block.matrix("proj").lora->scale, 0.5);
  EXPECT_FALSE(block.matrix("proj").lora->magnitude.defined());
}

}  // namespace
}  // namespace dpo::model
