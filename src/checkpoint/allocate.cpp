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

at::Tensor allocate_flat(const model::Block& block, at::ScalarType dtype, const model::Layout& layout) {
  const at::Tensor flat =
      at::empty({model::local_block(block, layout).shard_size}, at::TensorOptions().dtype(dtype));
  ask_for_large_pages(flat);
  std::int64_t end = 0;  // of the tensor before
  const auto clear_to = [&](std::int64_t begin) { flat.narrow(0, end, begin - end).zero_(); };
  for (const model::HeldTensor& held : model::held_tensors(block, layout)) {
    clear_to(held.to);
    end = held.to + held.count;
  }
  clear_to(flat.numel());
  return flat;
}

}  // namespace

model::Weights allocate_weights(const model::TensorTable& table, at::ScalarType dtype, at::Device device,
                                const model::Layout& layout) {
  if (!device.is_cpu()) return model::make_weights(table, dtype, device, layout);
  model::Weights weights;
  for (const model::Block& block : table.blocks) {
    const at::Tensor flat = allocate_flat(block, dtype, layout);
    weights.blocks.push_back(model::rank_block(flat, block, layout));
  }
  return weights;
}

}  // namespace dpo::checkpoint
