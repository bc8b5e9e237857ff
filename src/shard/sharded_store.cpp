#include "shard/sharded_store.h"

namespace dpo::shard {

ShardedStore::ShardedStore(const model::TensorTable& table, const model::Weights& shards, const Mesh& mesh,
                           config::Reshard reshard)
    : FetchingStore(table, shards.dtype(), std::vector(table.blocks.size(), shards.device()), mesh),
      shards_(shards),
      group_(mesh.shard) {
  keep_until(reshard);
  for (std::size_t i = 0; i < shards.blocks.size(); ++i)
    if (shards.blocks[i].quantized) fetch_bytes_of(i, *shards.blocks[i].quantized);
}

ShardedStore::~ShardedStore() { finish(); }

comm::Work ShardedStore::fetch(std::size_t block, const at::Tensor& flat) {
  return group_->all_gather(flat, shards_.blocks[block].flat);
}

}  // namespace dpo::shard
