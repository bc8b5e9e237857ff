#include "shard/sharded_store.h"

#include <algorithm>
#include <stdexcept>

#include <ATen/ops/empty.h>

namespace dpo::shard {
namespace {

constexpr std::size_t kMostGathered = 2;  // one in use, one being prefetched

void allocate(const at::Tensor& flat) {
  c10::StorageImpl* storage = flat.storage().unsafeGetStorageImpl();
  const std::size_t bytes = static_cast<std::size_t>(flat.numel()) * flat.element_size();
  storage->set_data_ptr(storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

void deallocate(const at::Tensor& flat) {
  c10::StorageImpl* storage = flat.storage().unsafeGetStorageImpl();
  storage->set_data_ptr(storage->allocator()->allocate(0));
  storage->set_nbytes(0);
}

}  // namespace

ShardedStore::ShardedStore(const model::TensorTable& table, const model::Weights& shards, const Mesh& mesh)
    : shards_(shards), group_(mesh.shard) {
  for (std::size_t i = 0; i < table.blocks.size(); ++i) {
    GatheredBlock block;
    const at::Tensor flat =
        at::empty({shards.blocks[i].flat.numel() * group_->size()}, shards.blocks[i].flat.options());
    block.weights = model::block_views(flat, table.blocks[i], mesh.layout());
    if (mesh.tensor->size() > 1) block.weights.tensor_group = mesh.tensor;
    // Gathering must not count as an in-place change of tensors that autograd saved: they have the same
    // values whenever a graph reads them.
    block.target = at::empty({0}, flat.options()).set_(flat.storage(), 0, flat.sizes(), flat.strides());
    deallocate(flat);
    blocks_.push_back(std::move(block));
  }
}

ShardedStore::~ShardedStore() {
  for (GatheredBlock& block : blocks_)
    if (block.gathered) block.gather.wait();
}

const model::BlockWeights& ShardedStore::weights(std::size_t block, std::optional<std::size_t> next) {
  fetch(block);
  GatheredBlock& wanted = blocks_[block];
  if (!wanted.gathered) throw std::logic_error("more blocks in use than a sharded model has memory for");
  ++wanted.users;
  wanted.gather.wait();
  if (next) fetch(*next);
  return wanted.weights;
}

void ShardedStore::release(std::size_t block) { --blocks_[block].users; }

void ShardedStore::end_pass() {
  for (GatheredBlock& block : blocks_)
    if (block.gathered && block.users == 0) free(block);
}

// Starts to gather a block, unless two others are in use: then it is gathered when it is asked for.
void ShardedStore::fetch(std::size_t block) {
  GatheredBlock& wanted = blocks_[block];
  if (wanted.gathered || !make_room(block)) return;
  allocate(wanted.weights.flat);
  wanted.gathered = true;
  most_gathered_ = std::max(most_gathered_, ++gathered_);
  wanted.gather = group_->all_gather(wanted.target, shards_.blocks[block].flat);
}

// Every rank asks for the same blocks in the same order, and so frees the same ones.
bool ShardedStore::make_room(std::size_t wanted) {
  if (gathered_ < kMostGathered) return true;
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    if (i != wanted && blocks_[i].gathered && blocks_[i].users == 0) {
      free(blocks_[i]);
      return true;
    }
  return false;
}

void ShardedStore::free(GatheredBlock& block) {
  block.gather.wait();
  deallocate(block.weights.flat);
  block.gathered = false;
  --gathered_;
}

}  // namespace dpo::shard
