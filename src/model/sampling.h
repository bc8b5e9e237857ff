#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpo::model {

// How the next token is chosen. Options mean what they mean in transformers and apply in the same order:
// repetition penalty, temperature, top-k, top-p, min-p.
struct SamplingOptions {
  bool greedy = false;  // the most likely token; of the other options only the penalty applies
  double temperature = 1;
  std::int64_t top_k = 0;  // 0: no limit
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
};

// An invalid option is a UserError.
void check(const SamplingOptions& options);

// Logits are float32 [rows, vocabulary] in all of these.

// Makes the tokens less likely that `seen` (bool, of the same shape) marks.
at::Tensor penalize_repetition(const at::Tensor& logits, const at::Tensor& seen, double penalty);

// Applies temperature, top-k, top-p and min-p. Masked tokens get -inf.
at::Tensor filter_logits(const at::Tensor& logits, const SamplingOptions& options);

// One token of each row (int64 [rows], on the CPU). Row i uses the random number numbers[i], in [0, 1).
at::Tensor draw_tokens(const at::Tensor& logits, std::span<const double> numbers);

// The random numbers of one sample, independent of what else is generated with it.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::uint64_t prompt, std::uint64_t sample);

  double next();  // in [0, 1)

 private:
  std::mt19937_64 engine_;
};

}  // namespace dpo::model
