#include "model/kv_cache.h"

#include <algorithm>

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include "ops/attention.h"
#include "ops/decode_attention.h"

namespace dpo::model {
namespace {

constexpr std::int64_t kFirstCapacity = 32;

// Segments on a layer's device, which may differ from the first layer's.
class DeviceSegments {
 public:
  DeviceSegments(const ops::Segments& segments, at::Device device)
      : segments_(segments),
        copy_(segments.device_starts.device() == device ? ops::Segments()
                                                        : ops::make_segments(segments.starts, device)) {}

  const ops::Segments& operator*() const { return copy_.device_starts.defined() ? copy_ : segments_; }

 private:
  const ops::Segments& segments_;
  ops::Segments copy_;
};

}  // namespace

KvCache::KvCache(const Model& model, ops::Segments prompts)
    : model_(model),
      prompts_(std::move(prompts)),
      layers_(static_cast<std::size_t>(model.config.shape.layers)) {}

at::Tensor KvCache::attend_prompts(std::size_t layer, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v) {
  layers_[layer].prompt_k = ops::for_decoding(k);
  layers_[layer].prompt_v = ops::for_decoding(v);
  const DeviceSegments prompts(prompts_, q.device());
  return ops::attend(q, k, v, *prompts, *prompts, /*causal=*/true, model_.attention_options(layer)).out;
}

void KvCache::begin(std::span<const std::int64_t> prompts) {
  prompt_of_.assign(prompts.begin(), prompts.end());
  group_samples();
  grow(kFirstCapacity);
}

void KvCache::group_samples() {
  std::vector<std::int32_t> starts(static_cast<std::size_t>(prompts_.count()) + 1, 0);
  for (const std::int64_t prompt : prompt_of_) ++starts[static_cast<std::size_t>(prompt) + 1];
  for (std::size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
  samples_ = ops::make_segments(std::move(starts), prompts_.device_starts.device());
}

void KvCache::grow(std::int64_t capacity) {
  const auto count = static_cast<std::int64_t>(prompt_of_.size());
  const auto larger = [&](const at::Tensor& filled, const at::Tensor& like) {
    const at::Tensor made = at::empty({count, like.size(1), capacity, like.size(2)}, like.options());
    if (own_tokens_ > 0) made.narrow(2, 0, own_tokens_).copy_(filled.narrow(2, 0, own_tokens_));
    return made;
  };
  for (Layer& layer : layers_) {
    layer.own_k = larger(layer.own_k, layer.prompt_k);
    layer.own_v = larger(layer.own_v, layer.prompt_v);
  }
  capacity_ = capacity;
}

void KvCache::add_token() {
  if (own_tokens_ == capacity_) grow(2 * capacity_);
  ++own_tokens_;
}

at::Tensor KvCache::attend_token(std::size_t layer, const at::Tensor& q, const at::Tensor& k,
                                 const at::Tensor& v) {
  const Layer& cached = layers_[layer];
  cached.own_k.select(2, own_tokens_ - 1).copy_(k);
  cached.own_v.select(2, own_tokens_ - 1).copy_(v);
  return ops::decode_attention(q, {cached.prompt_k, cached.prompt_v, cached.own_k, cached.own_v, own_tokens_},
                               *DeviceSegments(samples_, q.device()), *DeviceSegments(prompts_, q.device()),
                               model_.attention_options(layer));
}

void KvCache::keep(std::span<const std::int64_t> samples) {
  std::vector<std::int64_t> left;
  for (const std::int64_t sample : samples) left.push_back(prompt_of_[static_cast<std::size_t>(sample)]);
  prompt_of_ = std::move(left);
  group_samples();
  const at::Tensor chosen = at::tensor(samples, at::kLong);
  for (Layer& layer : layers_) {
    const at::Tensor index = chosen.to(layer.own_k.device());
    layer.own_k = layer.own_k.index_select(0, index);
    layer.own_v = layer.own_v.index_select(0, index);
  }
}

}  // namespace dpo::model
