#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/model.h"
#include "ops/segments.h"

namespace dpo::model {

// Keys and values of a generation: of every prompt once, however many samples continue it, and of the
// samples' new tokens, equally many for every sample. The samples of one prompt are adjacent.
class KvCache {
 public:
  KvCache(const Model& model, ops::Segments prompts);

  // Attention within the prompts; caches the keys and values of this layer.
  at::Tensor attend_prompts(std::size_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

  // From now on sample i continues prompt prompts[i]; `prompts` is ascending.
  void begin(std::span<const std::int64_t> prompts);

  // The next token of every sample: first add_token(), then each layer's attention.
  void add_token();
  at::Tensor attend_token(std::size_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

  // Drops all samples but these; `samples` is ascending.
  void keep(std::span<const std::int64_t> samples);

 private:
  struct Layer {
    at::Tensor prompt_k, prompt_v;  // [prompt tokens, kv_heads, head_dim]
    at::Tensor own_k, own_v;        // [samples, kv_heads, capacity, head_dim]
  };

  void group_samples();
  void grow(std::int64_t capacity);

  const Model& model_;
  ops::Segments prompts_, samples_;
  std::vector<std::int64_t> prompt_of_;  // of each sample
  std::vector<Layer> layers_;
  std::int64_t own_tokens_ = 0, capacity_ = 0;
};

}  // namespace dpo::model
