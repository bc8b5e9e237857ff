// Compares the attention of new tokens with softmax in float64, one sample and one head at a time.
#include "ops/decode_attention.h"

#include <string>
#include <vector>

#include <ATen/Context.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <gtest/gtest.h>

#include "compare.h"

namespace dpo::ops {
namespace {

constexpr std::int64_t kQueryHeads = 4, kKvHeads = 2, kHeadDim = 16, kOwn = 5, kCapacity = 8;

struct DecodeCase {
  at::Device device;
  at::ScalarType type;
  double tolerance;
  double size = 1;  // of queries and keys
};

// [samples, heads, head_dim]
at::Tensor softmax_of(const at::Tensor& q, const DecodeKeys& keys, const Segments& samples,
                      const Segments& prompts, double scale) {
  at::Tensor out = at::empty(q.sizes(), q.options().device(at::kCPU).dtype(at::kDouble));
  const auto host = [](const at::Tensor& tensor) { return tensor.to(at::kCPU, at::kDouble); };
  for (std::int64_t p = 0; p < prompts.count(); ++p)
    for (std::int64_t sample = samples.starts[p]; sample < samples.starts[p + 1]; ++sample)
      for (std::int64_t head = 0; head < kQueryHeads; ++head) {
        const std::int64_t kv_head = head / (kQueryHeads / kKvHeads);
        const auto rows = [&](const at::Tensor& prompt, const at::Tensor& own) {
          return at::cat({host(prompt).select(1, kv_head).slice(0, prompts.starts[p], prompts.starts[p + 1]),
                          host(own).select(0, sample).select(0, kv_head).slice(0, 0, kOwn)});
        };
        const at::Tensor scores = (rows(keys.prompt_k, keys.own_k) * host(q)[sample][head]).sum(1) * scale;
        out[sample][head] = (at::softmax(scores, 0).unsqueeze(1) * rows(keys.prompt_v, keys.own_v)).sum(0);
      }
  return out;
}

// `starts` are the starts of the samples of three prompts.
void check_decoding(const DecodeCase& c, const std::vector<std::int32_t>& starts) {
  SCOPED_TRACE("samples " + std::to_string(starts.back()) + ", " + std::string(at::toString(c.type)));
  at::manual_seed(3);
  const auto random = [&](at::IntArrayRef shape, double size) {
    return (at::randn(shape) * size).to(c.device, c.type);
  };
  const Segments prompts = make_segments({0, 3, 10, 11}, c.device), samples = make_segments(starts, c.device);
  const std::int64_t count = samples.tokens();
  const at::Tensor q = random({count, kQueryHeads, kHeadDim}, c.size);
  const auto prompt = [&](double size) {
    return for_decoding(random({prompts.tokens(), kKvHeads, kHeadDim}, size));
  };
  const auto own = [&](double size, const at::Tensor& like) {
    return random({count, kKvHeads, kCapacity, kHeadDim}, size).to(like.scalar_type());
  };
  const at::Tensor prompt_k = prompt(c.size), prompt_v = prompt(1);
  const DecodeKeys keys{prompt_k, prompt_v, own(c.size, prompt_k), own(1, prompt_v), kOwn};
  const double scale = 0.3 / (c.size * c.size);
  const at::Tensor out = decode_attention(q, keys, samples, prompts, {.scale = scale});
  EXPECT_LT(relative_error(out.cpu(), softmax_of(q, keys, samples, prompts, scale)), c.tolerance);
}

void check_all_groups(const DecodeCase& c) {
  check_decoding(c, {0, 1, 2, 3});  // one sample per prompt
  check_decoding(c, {0, 0, 1, 2});  // the samples of the first prompt have ended
  check_decoding(c, {0, 1, 1, 1});
  check_decoding(c, {0, 2, 2, 5});
}

}  // namespace

TEST(DecodeAttention, EqualsSoftmax) { check_all_groups({at::kCPU, at::kFloat, 1e-6}); }
TEST(DecodeAttention, IsCloseInBfloat16) { check_all_groups({at::kCPU, at::kBFloat16, 1e-2}); }

TEST(DecodeAttention, OnCuda) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  check_all_groups({at::kCUDA, at::kFloat, 1e-5});
  check_all_groups({at::kCUDA, at::kBFloat16, 2e-2});
  check_all_groups({at::kCUDA, at::kHalf, 2e-3});
}

// Unscaled dot products of such queries and keys exceed the range of float16.
TEST(DecodeAttention, OnCudaOfLargeQueriesAndKeys) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  check_all_groups({at::kCUDA, at::kHalf, 5e-3, 120});
}

}  // namespace dpo::ops
