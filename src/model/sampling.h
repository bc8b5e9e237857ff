#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

namespace dpo::model {

// Options for choosing the next token. They mean the same as in transformers and apply in the same order:
// repetition penalty, temperature, top-k, top-p, min-p.
struct SamplingOptions {
  bool greedy = false;  // choose the most likely token; only the penalty of the other options applies
  double temperature = 1;
  std::int64_t top_k = 0;  // 0: no limit
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
};

// Throws a UserError if an option is invalid.
void check(const SamplingOptions& options);

// Logits are float32 [rows, vocabulary] in all functions below.

// Makes the tokens that `seen` marks less likely. `seen` is bool, of the same shape.
at::Tensor penalize_repetition(const at::Tensor& logits, const at::Tensor& seen, double penalty);

// Applies temperature, top-k, top-p and min-p. Masked tokens get -inf.
at::Tensor filter_logits(const at::Tensor& logits, const SamplingOptions& options);

// Draws one token of each row (int64 [rows], on the CPU). Row i uses the random number numbers[i], in [0, 1).
at::Tensor draw_tokens(const at::Tensor& logits, std::span<const double> numbers);

// Random numbers of one sample. They do not depend on what else is generated with it.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::uint64_t prompt, std::uint64_t sample);

  double next();  // in [0, 1)

 private:
  std::mt19937_64 engine_;
};

}  // namespace dpo::model
