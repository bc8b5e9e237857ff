#include "checkpoint/allocate.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include <ATen/ops/empty.h>

namespace dpo::checkpoint {
namespace {

// Fewer page faults while weights are read, and later. Where large pages are not to be had, nothing is lost.
void ask_for_large_pages(const at::Tensor& flat) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(flat.mutable_data_ptr());
  const std::uintptr_t first = (begin + page - 1) / page * page, last = (begin + flat.nbytes()) / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

model::BlockWeights allocate_block(const model::BlockWeights& layout, at::Device device) {
  model::BlockWeights block;
  block.flat = at::empty(layout.flat.sizes(), layout.flat.options().device(device));
  ask_for_large_pages(block.flat);
  std::int64_t end = 0;  // of the tensor before
  const auto clear_to = [&](std::int64_t begin) { block.flat.narrow(0, end, begin - end).zero_(); };
  for (const model::NamedTensor& named : layout.tensors) {
    const std::int64_t begin = named.tensor.storage_offset();
    clear_to(begin);
    block.tensors.push_back(
        {named.name, block.flat.narrow(0, begin, named.tensor.numel()).view(named.tensor.sizes())});
    end = begin + named.tensor.numel();
  }
  clear_to(block.flat.numel());
  return block;
}

}  // namespace

model::Weights allocate_weights(const model::TensorTable& table, at::ScalarType dtype, at::Device device) {
  if (!device.is_cpu()) return model::make_weights(table, dtype, device);
  const model::Weights layout = model::make_weights(table, dtype, at::kMeta);  // takes no memory
  model::Weights weights;
  for (const model::BlockWeights& block : layout.blocks)
    weights.blocks.push_back(allocate_block(block, device));
  return weights;
}

}  // namespace dpo::checkpoint
