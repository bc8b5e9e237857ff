#include "shard/sharded.h"

#include <algorithm>
#include <stdexcept>

#include <ATen/ops/empty.h>

namespace dpo::shard {
namespace {

constexpr std::size_t kMostGathered = 2;  // one in use, one on its way

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

Sharded::Sharded(const model::TensorTable& table, const model::Weights& parts, const Mesh& mesh)
    : parts_(parts), group_(mesh.shard) {
  for (std::size_t i = 0; i < table.blocks.size(); ++i) {
    Gathered block;
    const at::Tensor flat =
        at::empty({parts.blocks[i].flat.numel() * group_->size()}, parts.blocks[i].flat.options());
    block.weights = model::block_in(flat, table.blocks[i], mesh.layout());
    if (mesh.tensor->size() > 1) block.weights.partners = mesh.tensor;
    // What arrives here must not count as a change of the tensors that autograd remembers: they hold the same
    // numbers whenever a graph reads them.
    block.target = at::empty({0}, flat.options()).set_(flat.storage(), 0, flat.sizes(), flat.strides());
    deallocate(flat);
    blocks_.push_back(std::move(block));
  }
}

Sharded::~Sharded() {
  for (Gathered& block : blocks_)
    if (block.here) block.arriving.wait();
}

const model::BlockWeights& Sharded::weights(std::size_t block, std::optional<std::size_t> next) {
  fetch(block);
  Gathered& wanted = blocks_[block];
  if (!wanted.here) throw std::logic_error("more blocks in use than a sharded model has room for");
  ++wanted.users;
  wanted.arriving.wait();
  if (next) fetch(*next);
  return wanted.weights;
}

void Sharded::release(std::size_t block) { --blocks_[block].users; }

void Sharded::rest() {
  for (Gathered& block : blocks_)
    if (block.here && block.users == 0) drop(block);
}

// Begins to gather a block, unless all room is in use: then it is fetched when it is asked for.
void Sharded::fetch(std::size_t block) {
  Gathered& wanted = blocks_[block];
  if (wanted.here || !make_room(block)) return;
  allocate(wanted.weights.flat);
  wanted.here = true;
  most_gathered_ = std::max(most_gathered_, ++gathered_);
  wanted.arriving = group_->all_gather(wanted.target, parts_.blocks[block].flat);
}

// Every rank asks for the same blocks in the same order, and so gives up the same ones.
bool Sharded::make_room(std::size_t wanted) {
  if (gathered_ < kMostGathered) return true;
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    if (i != wanted && blocks_[i].here && blocks_[i].users == 0) {
      drop(blocks_[i]);
      return true;
    }
  return false;
}

void Sharded::drop(Gathered& block) {
  block.arriving.wait();
  deallocate(block.weights.flat);
  block.here = false;
  --gathered_;
}

}  // namespace dpo::shard
