#pragma once

#include <memory>

#include "shard/fetching_store.h"

namespace dpo::shard {

// A store of frozen weights with some quantized blocks. A quantized block is dequantized into the dtype of
// the run before it is used. Dequantizing the next one early would gain nothing, so there is room for one;
// the next block's bytes may be prefetched.
class QuantizedStore : public FetchingStore {
 public:
  // Reads the bytes from `bytes`, the store of these weights, which has this rank's bytes or gathers them.
  QuantizedStore(const model::TensorTable& table, const model::Weights& weights,
                 std::unique_ptr<model::Store> bytes, const Mesh& mesh);

  const model::BlockWeights& weights(std::size_t block, std::optional<std::size_t> next) override;
  void release(std::size_t block) override;
  void end_pass() override;
  void end_update() override;

 protected:
  comm::Work fetch(std::size_t block, const at::Tensor& flat) override;

 private:
  bool is_quantized(std::size_t block) const { return weights_.blocks[block].quantized != nullptr; }

  const model::Weights& weights_;
  std::unique_ptr<model::Store> bytes_;
};

}  // namespace dpo::shard
