#include "shard/fetching_store.h"

#include <algorithm>
#include <stdexcept>

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>

#include "model/quantized_block.h"

namespace dpo::shard {
namespace {

void allocate(const at::Tensor& flat) {
  const c10::DeviceGuard guard(flat.device());  // a GPU allocator uses the current device
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

FetchingStore::FetchingStore(const model::TensorTable& table, at::ScalarType dtype,
                             const std::vector<at::Device>& devices, const Mesh& mesh, std::size_t room)
    : blocks_(table.blocks.size()), room_(room) {
  for (std::size_t i = 0; i < table.blocks.size(); ++i) {
    const at::Tensor flat = at::empty({model::block_size(table.blocks[i], mesh.layout()).size},
                                      at::TensorOptions().dtype(dtype).device(devices[i]));
    model::BlockWeights weights = model::block_views(flat, table.blocks[i], mesh.layout());
    if (mesh.tensor->size() > 1) weights.tensor_group = mesh.tensor;
    set_block(i, std::move(weights));
  }
}

void FetchingStore::fetch_bytes_of(std::size_t block, const model::QuantizedBlock& quantized) {
  set_block(block,
            model::quantized_views(
                at::empty({quantized.size}, at::TensorOptions().dtype(at::kByte).device(device(block))),
                quantized));
}

void FetchingStore::set_block(std::size_t block, model::BlockWeights weights) {
  const at::Tensor& flat = weights.flat;
  // Fetching must not count as an in-place change of tensors that autograd saved. They have the same values
  // whenever a graph reads them.
  blocks_[block].target =
      at::empty({0}, flat.options()).set_(flat.storage(), 0, flat.sizes(), flat.strides());
  deallocate(flat);
  blocks_[block].weights = std::move(weights);
}

const model::BlockWeights& FetchingStore::weights(std::size_t block, std::optional<std::size_t> next) {
  start(block);
  TemporaryBlock& wanted = blocks_[block];
  if (!wanted.fetched) throw std::logic_error("more blocks in use than there is room for");
  ++wanted.users;
  wanted.work.wait();
  if (next) start(*next);
  return wanted.weights;
}

void FetchingStore::release(std::size_t block) { --blocks_[block].users; }

void FetchingStore::keep_until(config::Reshard reshard) {
  reshard_ = reshard;
  if (reshard != config::Reshard::pass) room_ = blocks_.size();
}

void FetchingStore::end_pass() {
  if (reshard_ == config::Reshard::pass) free_unused();
}

void FetchingStore::end_update() {
  if (reshard_ == config::Reshard::update) free_unused();
}

void FetchingStore::free_unused() {
  for (TemporaryBlock& block : blocks_)
    if (block.fetched && block.users == 0) free(block);
}

void FetchingStore::finish() {
  for (TemporaryBlock& block : blocks_) block.work.wait();
}

// Starts to fetch a block if there is room. Otherwise the block is fetched when it is needed.
void FetchingStore::start(std::size_t block) {
  TemporaryBlock& wanted = blocks_[block];
  if (wanted.fetched || !make_room(block)) return;
  allocate(wanted.weights.flat);
  wanted.fetched = true;
  most_fetched_ = std::max(most_fetched_, ++fetched_);
  wanted.work = fetch(block, wanted.target);
}

// Every rank requests the same blocks in the same order, so every rank frees the same ones.
bool FetchingStore::make_room(std::size_t wanted) {
  if (fetched_ < room_) return true;
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    if (i != wanted && blocks_[i].fetched && blocks_[i].users == 0) {
      free(blocks_[i]);
      return true;
    }
  return false;
}

void FetchingStore::free(TemporaryBlock& block) {
  block.work.wait();
  deallocate(block.weights.flat);
  block.fetched = false;
  --fetched_;
}

}  // namespace dpo::shard
