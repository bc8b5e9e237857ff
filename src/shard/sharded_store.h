#pragma once

#include <memory>

#include "shard/fetching_store.h"

namespace dpo::shard {

// A store of weights sharded over the ranks of a group (FSDP). A block is all-gathered before it is used. At
// most two blocks are in memory, unless gathered blocks are kept. Quantized blocks are gathered as quantized
// bytes: see QuantizedStore.
class ShardedStore : public FetchingStore {
 public:
  // `shards` is this rank's part. It is read when a block is gathered. With Reshard::never it must not
  // change.
  ShardedStore(const model::TensorTable& table, const model::Weights& shards, const Mesh& mesh,
               config::Reshard reshard = config::Reshard::pass);
  ~ShardedStore() override;

 protected:
  comm::Work fetch(std::size_t block, const at::Tensor& flat) override;

 private:
  const model::Weights& shards_;
  std::shared_ptr<comm::Group> group_;
};

}  // namespace dpo::shard
