#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpo::model {

// How the next token is chosen. What each number means is what it means in transformers, and so is the order
// in which they act: the repetition penalty, then temperature, top-k, top-p and min-p.
struct SamplingOptions {
  bool greedy = false;  // the most likely token; of the rest only the penalty counts
  double temperature = 1;
  std::int64_t top_k = 0;  // 0: no limit
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
};

// An impossible number is a UserError.
void check(const SamplingOptions& options);

// Logits are float32 [rows, vocabulary] here.

// Makes the tokens that `seen` (bool, of the same shape) marks less likely.
at::Tensor penalize_repetition(const at::Tensor& logits, const at::Tensor& seen, double penalty);

// After temperature, top-k, top-p and min-p. What they rule out is -inf.
at::Tensor filter_logits(const at::Tensor& logits, const SamplingOptions& options);

// One token of each row (int64 [rows], on the CPU). Row i is decided by numbers[i], from 0 to below 1.
at::Tensor draw_tokens(const at::Tensor& logits, std::span<const double> numbers);

// The random numbers of one sample: its own, whatever else is generated beside it.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::uint64_t prompt, std::uint64_t sample);

  double next();  // from 0 to below 1

 private:
  std::mt19937_64 engine_;
};

}  // namespace dpo::model
