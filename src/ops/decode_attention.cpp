#include "ops/decode_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/tensor.h>

#include "ops/attention.h"
#include "ops/vector_loops.h"

namespace dpo::ops {
namespace {

// The CPU makes one pass over the keys of each head, without calling the tensor library for every sample.

#define DPO_INLINE inline __attribute__((always_inline))

typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(sizeof(float)), may_alias));

DPO_INLINE float dot(const float* a, const float* b, std::int64_t count) {
  Lanes sums{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    sums += *reinterpret_cast<const Lanes*>(a + i) * *reinterpret_cast<const Lanes*>(b + i);
  float total = 0;
  for (std::int64_t lane = 0; lane < kLanes / 4; ++lane)
    total += (sums[lane] + sums[lane + 4]) + (sums[lane + 8] + sums[lane + 12]);
  for (; i < count; ++i) total += a[i] * b[i];
  return total;
}

DPO_INLINE void add_scaled(float* sum, const float* values, float factor, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    *reinterpret_cast<Lanes*>(sum + i) += *reinterpret_cast<const Lanes*>(values + i) * factor;
  for (; i < count; ++i) sum[i] += values[i] * factor;
}

struct Rows {
  const float *keys, *values;
  std::int64_t count, stride;
};

struct HeadTask {
  const float* q;
  Rows parts[2];  // the prompt's rows and the sample's own
  float scale, soft_cap;
  std::int64_t head_dim;
  float* scores;  // buffer, one number per key
  float* out;
};

DPO_INLINE void attend_head(const HeadTask& task) {
  float greatest = -std::numeric_limits<float>::infinity();
  float* score = task.scores;
  for (const Rows& part : task.parts)
    for (std::int64_t i = 0; i < part.count; ++i, ++score) {
      *score = task.scale * dot(task.q, part.keys + i * part.stride, task.head_dim);
      if (task.soft_cap > 0) *score = task.soft_cap * std::tanh(*score / task.soft_cap);
      greatest = std::max(greatest, *score);
    }
  float sum = 0;
  for (float* each = task.scores; each != score; ++each) sum += * each = std::exp(*each - greatest);
  std::fill_n(task.out, task.head_dim, 0.0F);
  const float* weight = task.scores;
  for (const Rows& part : task.parts)
    for (std::int64_t i = 0; i < part.count; ++i, ++weight)
      add_scaled(task.out, part.values + i * part.stride, *weight / sum, task.head_dim);
}

void attend_head_plain(const HeadTask& task) { attend_head(task); }

#if defined(__x86_64__)
// Compiled for instructions that most processors have; the program itself is built for all processors.
__attribute__((target("avx2,fma"))) void attend_head_wide(const HeadTask& task) { attend_head(task); }

auto attend_head_here() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? attend_head_wide
                                                                         : attend_head_plain;
}
#else
auto attend_head_here() { return attend_head_plain; }
#endif

#undef DPO_INLINE

// Numbers of keys that a new token sees: of its sample's own and of its prompt, from the last one back.
struct Reach {
  std::int64_t own, prompt;
};

Reach reach_of(const DecodeKeys& keys, const AttentionOptions& options) {
  if (options.window == 0) return {keys.own_tokens, std::numeric_limits<std::int64_t>::max()};
  const std::int64_t own = std::min(keys.own_tokens, options.window);
  return {own, options.window - own};
}

// Returns the last `most` rows, or all if there are fewer.
Rows last_rows(const Rows& rows, std::int64_t most) {
  const std::int64_t count = std::min(rows.count, most), skipped = (rows.count - count) * rows.stride;
  return {rows.keys + skipped, rows.values + skipped, count, rows.stride};
}

Rows prompt_rows(const DecodeKeys& keys, const Segments& prompts, std::size_t prompt, std::int64_t kv_head) {
  const std::int64_t start = prompts.starts[prompt], stride = keys.prompt_k.stride(0);
  const std::int64_t offset = start * stride + kv_head * keys.prompt_k.stride(1);
  return {keys.prompt_k.const_data_ptr<float>() + offset, keys.prompt_v.const_data_ptr<float>() + offset,
          prompts.starts[prompt + 1] - start, stride};
}

Rows own_rows(const DecodeKeys& keys, std::int64_t sample, std::int64_t kv_head) {
  const std::int64_t offset = sample * keys.own_k.stride(0) + kv_head * keys.own_k.stride(1);
  return {keys.own_k.const_data_ptr<float>() + offset, keys.own_v.const_data_ptr<float>() + offset,
          keys.own_tokens, keys.own_k.size(3)};
}

std::vector<std::size_t> prompt_of_samples(const Segments& samples) {
  std::vector<std::size_t> prompts(static_cast<std::size_t>(samples.tokens()));
  for (std::size_t p = 0; p + 1 < samples.starts.size(); ++p)
    std::fill(prompts.begin() + samples.starts[p], prompts.begin() + samples.starts[p + 1], p);
  return prompts;
}

at::Tensor decode_cpu(const at::Tensor& q, const DecodeKeys& keys, const Segments& samples,
                      const Segments& prompts, const AttentionOptions& options) {
  const Reach reach = reach_of(keys, options);
  const at::Tensor queries = q.to(at::kFloat).contiguous();
  const at::Tensor out = at::empty(queries.sizes(), queries.options());
  const std::int64_t heads = q.size(1), head_dim = q.size(2), groups = heads / keys.own_k.size(1);
  const std::vector<std::size_t> prompt_of = prompt_of_samples(samples);
  const auto attend_here = attend_head_here();
  constexpr std::int64_t kGrain = 1 << 15;  // multiplications that are worth a thread
  const std::int64_t most_keys = prompts.longest + keys.own_tokens;
  at::parallel_for(
      0, q.size(0) * heads, 1 + kGrain / (most_keys * head_dim), [&](std::int64_t begin, std::int64_t end) {
        std::vector<float> scores(static_cast<std::size_t>(most_keys));
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t sample = i / heads, kv_head = i % heads / groups;
          attend_here(
              {queries.const_data_ptr<float>() + i * head_dim,
               {last_rows(prompt_rows(keys, prompts, prompt_of[static_cast<std::size_t>(sample)], kv_head),
                          reach.prompt),
                last_rows(own_rows(keys, sample, kv_head), reach.own)},
               static_cast<float>(options.scale),
               static_cast<float>(options.soft_cap),
               head_dim,
               scores.data(),
               out.mutable_data_ptr<float>() + i * head_dim});
        }
      });
  return out.to(q.scalar_type());
}

// Attends to the samples' own keys with one batched matmul, because every sample has equally many.
AttentionOutput attend_own(const at::Tensor& q, const DecodeKeys& keys, const AttentionOptions& options) {
  const std::int64_t seen = reach_of(keys, options).own;
  const at::Tensor queries =
      q.unflatten(1, {keys.own_k.size(1), -1});  // [samples, kv_heads, group, head_dim]
  const auto filled = [&](const at::Tensor& cache) { return cache.narrow(2, keys.own_tokens - seen, seen); };
  // The dot products might overflow float16, so queries are first scaled down by a power of two, which is
  // exact.
  const double power = std::exp2(std::floor(std::log2(options.scale)));
  const at::Tensor scores = at::matmul(queries * power, filled(keys.own_k).transpose(2, 3))
                                .to(at::kFloat)
                                .mul_(options.scale / power);
  if (options.soft_cap > 0) scores.div_(options.soft_cap).tanh_().mul_(options.soft_cap);
  const at::Tensor lse = at::logsumexp(scores, -1, /*keepdim=*/true);
  const at::Tensor weights = (scores - lse).exp_().to(q.scalar_type());
  return {at::matmul(weights, filled(keys.own_v)).flatten(1, 2), lse.flatten(1).t().contiguous()};
}

// Attends to the last `most` keys of each prompt.
AttentionOutput attend_prompt_ends(const at::Tensor& q, const DecodeKeys& keys, const Segments& samples,
                                   const Segments& prompts, std::int64_t most,
                                   const AttentionOptions& options) {
  std::vector<std::int64_t> tokens;
  std::vector<std::int32_t> starts{0};
  for (std::size_t p = 0; p + 1 < prompts.starts.size(); ++p) {
    const std::int64_t end = prompts.starts[p + 1];
    for (std::int64_t t = std::max<std::int64_t>(prompts.starts[p], end - most); t < end; ++t)
      tokens.push_back(t);
    starts.push_back(static_cast<std::int32_t>(tokens.size()));
  }
  const at::Tensor index = at::tensor(tokens, at::kLong).to(q.device());
  return attend(q, keys.prompt_k.index_select(0, index), keys.prompt_v.index_select(0, index), samples,
                make_segments(std::move(starts), q.device()), /*causal=*/false, options);
}

}  // namespace

at::Tensor for_decoding(const at::Tensor& prompts) {
  if (!prompts.is_cpu()) return prompts.contiguous();
  // Each step reads all keys of a head, so they are contiguous.
  return prompts.to(at::kFloat).transpose(0, 1).contiguous().transpose(0, 1);
}

at::Tensor decode_attention(const at::Tensor& q, const DecodeKeys& keys, const Segments& samples,
                            const Segments& prompts, const AttentionOptions& options) {
  if (q.is_cpu()) return decode_cpu(q, keys, samples, prompts, options);
  AttentionOutput all = attend_own(q, keys, options);
  const std::int64_t reach = reach_of(keys, options).prompt;
  AttentionOptions of_prompts = options;
  of_prompts.window = 0;
  if (reach >= prompts.longest)
    merge(all, attend(q, keys.prompt_k, keys.prompt_v, samples, prompts, /*causal=*/false, of_prompts));
  else if (reach > 0)
    merge(all, attend_prompt_ends(q, keys, samples, prompts, reach, of_prompts));
  return all.out;
}

}  // namespace dpo::ops
