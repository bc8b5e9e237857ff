#include "ops/log_probs.h"

#include <algorithm>
#include <functional>
#include <memory>

#include <ATen/ops/linear.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "unit/ops/compare.h"

namespace dpo::ops {
namespace {

const std::vector<std::int32_t> kRowStarts = {0, 3, 3, 4, 11, 12};  // one response has no row

ResponseRows rows_of(const std::vector<std::int32_t>& starts, at::Device device) {
  std::vector<std::int64_t> lengths, of_rows;
  for (std::size_t r = 0; r + 1 < starts.size(); ++r) {
    lengths.push_back(starts[r + 1] - starts[r]);
    of_rows.insert(of_rows.end(), static_cast<std::size_t>(lengths.back()), static_cast<std::int64_t>(r));
  }
  return {at::tensor(lengths, at::kLong).to(device), at::tensor(of_rows, at::kLong).to(device)};
}

struct Problem {
  at::Tensor hidden, matrix, bias, targets, grad_log_probs, row_weights;

  HeadInput input(std::int64_t chunk_rows) const {
    return {hidden, matrix, bias, targets, rows_of(kRowStarts, hidden.device()), chunk_rows, row_weights};
  }
};

Problem make_problem(at::Device device, at::ScalarType dtype, bool with_bias, bool weighted) {
  const auto options = at::TensorOptions().device(device).dtype(dtype);
  Problem problem{at::randn({12, 8}, options),
                  at::randn({30, 8}, options),
                  {},
                  at::randint(30, {12}, options.dtype(at::kLong)),
                  at::randn({5}, options.dtype(at::kFloat)),
                  {}};
  if (with_bias) problem.bias = at::randn({30}, options);
  if (weighted) problem.row_weights = at::rand({12}, options.dtype(at::kFloat));
  return problem;
}

// Computes all rows at once, in float64, with autograd.
struct Expected {
  at::Tensor scores, entropy, hidden, matrix, bias;
};

Expected expect(const Problem& problem) {
  const auto exact = [](const at::Tensor& x) { return x.to(at::kDouble).requires_grad_(); };
  const at::Tensor hidden = exact(problem.hidden), matrix = exact(problem.matrix);
  const bool with_bias = problem.bias.defined();
  const at::Tensor bias =
      with_bias ? exact(problem.bias) : at::zeros({30}, hidden.options()).detach().requires_grad_();
  const at::Tensor log_probs = at::log_softmax(at::linear(hidden, matrix, bias), 1);
  at::Tensor chosen = log_probs.gather(1, problem.targets.unsqueeze(1)).squeeze(1);
  if (problem.row_weights.defined()) chosen = chosen * problem.row_weights.to(at::kDouble);
  std::vector<at::Tensor> sums;
  for (std::size_t r = 0; r + 1 < kRowStarts.size(); ++r)
    sums.push_back(chosen.narrow(0, kRowStarts[r], kRowStarts[r + 1] - kRowStarts[r]).sum());
  const at::Tensor scores = at::stack(sums);
  const auto grads = torch::autograd::grad({(scores * problem.grad_log_probs.to(at::kDouble)).sum()},
                                           {hidden, matrix, bias});
  return {scores, -(log_probs.exp() * log_probs).sum(1), grads[0], grads[1], grads[2]};
}

void check_log_probs(at::Device device, at::ScalarType dtype, double tolerance) {
  for (const bool with_bias : {false, true})
    for (const std::int64_t chunk_rows : {1, 4, 100}) {
      const Problem problem = make_problem(device, dtype, with_bias, /*weighted=*/chunk_rows == 4);
      const Expected expected = expect(problem);
      const HeadInput input = problem.input(chunk_rows);
      const ResponseScores scores = score_responses(input, {.entropy = true, .keep_last_logits = true});
      EXPECT_LT(relative_error(scores.log_probs, expected.scores), tolerance);
      EXPECT_LT(relative_error(scores.entropy, expected.entropy), tolerance);
      const auto new_sums = [&] {
        const auto options = problem.grad_log_probs.options();
        return HeadSums{{at::zeros({30, 8}, options)}, {with_bias ? at::zeros({30}, options) : at::Tensor()}};
      };
      HeadSums sums = new_sums(), none;
      const at::Tensor recomputed = score_responses_backward(input, scores.lse, problem.grad_log_probs, none);
      ASSERT_TRUE(scores.last_logits.defined());
      const at::Tensor hidden =
          score_responses_backward(input, scores.lse, problem.grad_log_probs, sums, scores.last_logits);
      EXPECT_TRUE(hidden.equal(recomputed));
      EXPECT_LT(relative_error(hidden, expected.hidden), tolerance);
      EXPECT_LT(relative_error(sums.matrix.tensor, expected.matrix), tolerance);
      if (with_bias) {
        EXPECT_LT(relative_error(sums.bias.tensor, expected.bias), tolerance);
      }
      HeadSums again = new_sums();
      const ScoresAndGradient both =
          score_responses_and_backward(input, {.entropy = true}, problem.grad_log_probs, again);
      EXPECT_TRUE(both.scores.log_probs.equal(scores.log_probs));
      EXPECT_TRUE(both.scores.entropy.equal(scores.entropy));
      EXPECT_TRUE(both.hidden_gradient.equal(hidden));
      EXPECT_TRUE(again.matrix.tensor.equal(sums.matrix.tensor));
      EXPECT_TRUE(!with_bias || again.bias.tensor.equal(sums.bias.tensor));
    }
}

TEST(LogProbs, AndTheirGradientsAreExact) {
  check_log_probs(at::kCPU, at::kFloat, 1e-5);
  check_log_probs(at::kCPU, at::kBFloat16, 2e-2);
}

TEST(LogProbs, OnCuda) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  check_log_probs(at::kCUDA, at::kFloat, 1e-5);
  check_log_probs(at::kCUDA, at::kBFloat16, 2e-2);
}

TEST(LogProbs, DoNotDependOnTheChunks) {
  const Problem problem = make_problem(at::kCPU, at::kDouble, true, false);
  const at::Tensor whole = score_responses(problem.input(100), {}).log_probs;
  for (const std::int64_t chunk_rows : {1, 2, 5, 8})
    EXPECT_LT(relative_error(score_responses(problem.input(chunk_rows), {}).log_probs, whole), 1e-14);
}

// Tracks the memory of tensors on the CPU.
class Allocations : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    now_ += size;
    most_ = std::max(most_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t most() const { return most_; }

 private:
  std::int64_t now_ = 0, most_ = 0;
};

std::int64_t most_bytes(const std::function<void()>& work) {
  const auto allocations = std::make_shared<Allocations>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, allocations);
  work();
  return allocations->most();
}

// A response much longer than a chunk needs only the memory of a chunk.
TEST(LogProbs, OfALongResponseKeepFewLogits) {
  constexpr std::int64_t kTokens = 4000, kVocabulary = 5000, kHidden = 4, kChunk = 50;
  const ResponseRows one = rows_of({0, kTokens}, at::kCPU);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor hidden = at::randn({kTokens, kHidden}).to(type),
                     matrix = at::randn({kVocabulary, kHidden}).to(type);
    const HeadInput input{hidden, matrix, {}, at::randint(kVocabulary, {kTokens}, at::kLong), one, kChunk};
    HeadSums sums{{at::zeros({kVocabulary, kHidden}, hidden.options())}, {}};
    constexpr std::int64_t kLogits = kChunk * kVocabulary * 4, kTheRest = kTokens * kHidden * 64;
    const std::int64_t most = most_bytes([&] {
      const ResponseScores scores = score_responses(input, {.entropy = true});
      score_responses_backward(input, scores.lse, at::ones({1}), sums);
    });
    EXPECT_LT(most, 10 * kLogits + kTheRest) << type;
    EXPECT_GT(most, kLogits / 4);  // the allocations are counted
    const std::int64_t at_once =
        most_bytes([&] { score_responses_and_backward(input, {.entropy = true}, at::ones({1}), sums); });
    EXPECT_LT(at_once, 10 * kLogits + kTheRest) << type;
  }
}

// With many chunks, sums in 16 bits would lose most of each summand.
TEST(LogProbs, SumTheirGradientOverChunksInFloat32) {
  constexpr std::int64_t kTokens = 2048, kVocabulary = 16, kHidden = 8;
  const ResponseRows one = rows_of({0, kTokens}, at::kCPU);
  const at::Tensor hidden = at::rand({kTokens, kHidden}).to(at::kBFloat16);
  const at::Tensor matrix = at::randn({kVocabulary, kHidden}).to(at::kBFloat16);
  const at::Tensor targets = at::zeros({kTokens}, at::kLong);
  const auto gradient_with = [&](std::int64_t chunk_rows) {
    const HeadInput input{hidden, matrix, {}, targets, one, chunk_rows};
    HeadSums sums{{at::zeros({kVocabulary, kHidden}, hidden.options())}, {}};
    const ResponseScores scores = score_responses(input, {});
    score_responses_backward(input, scores.lse, at::ones({1}), sums);
    return sums.matrix.tensor;
  };
  EXPECT_LT(relative_error(gradient_with(1), gradient_with(kTokens)), 5e-3);
}

}  // namespace
}  // namespace dpo::ops
