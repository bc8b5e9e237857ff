#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/model.h"
#include "ops/segments.h"

namespace dpo::model {

// Caches the keys and values of a generation. Those of a prompt are stored once for all samples that continue
// it, those of new tokens per sample. Every sample has the same number of new tokens. The samples of one
// prompt are adjacent.
class KvCache {
 public:
  KvCache(const Model& model, ops::Segments prompts);

  // Computes attention within the prompts and caches the keys and values of this layer.
  at::Tensor attend_prompts(std::size_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

  // Starts the samples. Sample i continues prompt prompts[i]; `prompts` must be ascending.
  void begin(std::span<const std::int64_t> prompts);

  // Process the next token of every sample: first add_token(), then attend_token() for each layer.
  void add_token();
  at::Tensor attend_token(std::size_t layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

  // Drops all samples but these; `samples` must be ascending.
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
  std::vector<std::int64_t> prompt_of_;  // the prompt of each sample
  std::vector<Layer> layers_;
  std::int64_t own_tokens_ = 0, capacity_ = 0;
};

}  // namespace dpo::model
