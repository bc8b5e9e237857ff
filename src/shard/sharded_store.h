#pragma once

#include <memory>

#include "shard/fetching_store.h"

namespace dpo::shard {

// Weights sharded over the ranks of a group (FSDP): a block is all-gathered before it is used; at most two
// are in memory. Those whose matrices are in few bits are gathered in them: see SmallStore.
class ShardedStore : public FetchingStore {
 public:
  // `shards` are this rank's; they are read when a block is gathered.
  ShardedStore(const model::TensorTable& table, const model::Weights& shards, const Mesh& mesh);
  ~ShardedStore() override;

 protected:
  comm::Work fetch(std::size_t block, const at::Tensor& flat) override;

 private:
  const model::Weights& shards_;
  std::shared_ptr<comm::Group> group_;
};

}  // namespace dpo::shard
