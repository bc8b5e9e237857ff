#include "model/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ops/cumsum.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>

#include "base/error.h"

namespace dpo::model {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

void require(bool holds, const char* name, double value, const char* expected) {
  if (!holds) throw UserError(fmt::format("{} is {}, expected {}", name, value, expected));
}

at::Tensor keep_top_k(const at::Tensor& logits, std::int64_t k) {
  const at::Tensor best = std::get<0>(at::topk(logits, std::min(k, logits.size(1))));
  return logits.masked_fill(logits < best.narrow(1, best.size(1) - 1, 1), kMasked);
}

// Masks the least likely tokens with a total probability of at most 1 - p, but never the most likely one.
at::Tensor keep_top_p(const at::Tensor& logits, double p) {
  const auto [sorted, order] = at::sort(logits, /*dim=*/1, /*descending=*/false);
  at::Tensor out = at::cumsum(at::softmax(sorted, 1), 1) <= 1 - p;
  out.narrow(1, out.size(1) - 1, 1).fill_(false);
  return logits.masked_fill(out.scatter(1, order, out), kMasked);
}

at::Tensor keep_min_p(const at::Tensor& logits, double p) {
  const at::Tensor probabilities = at::softmax(logits, 1);
  return logits.masked_fill(probabilities < probabilities.amax(1, /*keepdim=*/true) * p, kMasked);
}

}  // namespace

void check(const SamplingOptions& options) {
  require(options.temperature > 0 && std::isfinite(options.temperature), "temperature", options.temperature,
          "a number above 0 (for the most likely token, use --greedy)");
  require(options.top_k >= 0, "top_k", static_cast<double>(options.top_k), "a count, or 0 for no limit");
  require(options.top_p > 0 && options.top_p <= 1, "top_p", options.top_p, "a number above 0, up to 1");
  require(options.min_p >= 0 && options.min_p <= 1, "min_p", options.min_p, "a number from 0 to 1");
  require(options.repetition_penalty > 0 && std::isfinite(options.repetition_penalty), "repetition_penalty",
          options.repetition_penalty, "a number above 0, where 1 changes nothing");
}

at::Tensor penalize_repetition(const at::Tensor& logits, const at::Tensor& seen, double penalty) {
  const at::Tensor penalized = at::where(logits < 0, logits * penalty, logits / penalty);
  return at::where(seen, penalized, logits);
}

at::Tensor filter_logits(const at::Tensor& logits, const SamplingOptions& options) {
  at::Tensor left = options.temperature == 1 ? logits : logits / options.temperature;
  if (options.top_k > 0) left = keep_top_k(left, options.top_k);
  if (options.top_p < 1) left = keep_top_p(left, options.top_p);
  if (options.min_p > 0) left = keep_min_p(left, options.min_p);
  return left;
}

at::Tensor draw_tokens(const at::Tensor& logits, std::span<const double> numbers) {
  const at::Tensor sums = at::cumsum(at::softmax(logits, 1, at::kDouble), 1);
  const at::Tensor all = sums.narrow(1, sums.size(1) - 1, 1);
  // Stays below the total, so that the token found has a probability above 0.
  const at::Tensor wanted = (at::tensor(numbers, at::kDouble).to(logits.device()).unsqueeze(1) * all)
                                .minimum(all * (1 - std::numeric_limits<double>::epsilon()));
  return at::searchsorted(sums, wanted, /*out_int32=*/false, /*right=*/true).squeeze(1).cpu();
}

RandomStream::RandomStream(std::uint64_t seed, std::uint64_t prompt, std::uint64_t sample) {
  std::vector<std::uint32_t> words;
  for (const std::uint64_t number : {seed, prompt, sample})
    words.insert(words.end(), {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32)});
  std::seed_seq sequence(words.begin(), words.end());
  engine_.seed(sequence);
}

double RandomStream::next() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

}  // namespace dpo::model
