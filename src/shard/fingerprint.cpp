#include "shard/fingerprint.h"

#include <atomic>
#include <cstring>

#include <ATen/Parallel.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include "base/splitmix64.h"

namespace dpo::shard {
namespace {

// The sums do not depend on the order of elements, so each rank adds its own.
struct Sums {
  std::atomic<std::uint64_t> first = 0, second = 0;
};

void add_elements(Sums& sums, const std::byte* elements, std::int64_t size, const model::Piece& piece,
                  std::uint64_t key) {
  at::parallel_for(0, piece.count, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
    std::uint64_t first = 0, second = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, elements + (piece.to + i) * size, static_cast<std::size_t>(size));
      const std::uint64_t position = splitmix64(key + static_cast<std::uint64_t>(piece.from + i));
      const std::uint64_t random = splitmix64(position ^ bits);
      first += random;
      second += splitmix64(random + position);
    }
    sums.first += first;
    sums.second += second;
  });
}

// Derives the key from the tensor's name and scale, so that equal values in another tensor or with another
// scale hash differently.
std::uint64_t key_of_tensor(const model::TensorInfo& tensor) {
  return key_of(0, tensor.scale == 1 ? tensor.name : fmt::format("{} * {}", tensor.scale, tensor.name));
}

}  // namespace

void Fingerprint::add(const model::Block& block, const at::Tensor& part) {
  Sums sums;
  const model::Layout layout = mesh_.layout();
  const at::Tensor host = part.cpu().contiguous();
  const auto* elements = static_cast<const std::byte*>(host.const_data_ptr());
  for (const model::Piece& piece : model::pieces_of(block, layout)) {
    const model::TensorInfo& tensor = block.tensors[piece.tensor];
    if (!tensor.split && layout.tensor_rank > 0) continue;  // counted by the first tensor rank
    add_elements(sums, elements, static_cast<std::int64_t>(host.element_size()), piece,
                 key_of_tensor(tensor));
  }
  first_ += sums.first;
  second_ += sums.second;
}

void Fingerprint::add_whole(const model::Block& block, const at::Tensor& flat) {
  Sums sums;
  const std::int64_t rank = mesh_.model->rank(), ranks = mesh_.model->size();
  for (const model::Piece& piece : model::pieces_of(block, {})) {
    const std::int64_t begin = piece.count * rank / ranks, end = piece.count * (rank + 1) / ranks;
    const at::Tensor host = flat.narrow(0, piece.to + begin, end - begin).cpu();
    add_elements(sums, static_cast<const std::byte*>(host.const_data_ptr()),
                 static_cast<std::int64_t>(host.element_size()),
                 {piece.tensor, piece.from + begin, 0, end - begin},
                 key_of_tensor(block.tensors[piece.tensor]));
  }
  first_ += sums.first;
  second_ += sums.second;
}

std::string Fingerprint::text() const {
  const at::Tensor both =
      at::tensor({static_cast<std::int64_t>(first_), static_cast<std::int64_t>(second_)}, at::kLong)
          .to(mesh_.device);
  mesh_.model->all_reduce(both).wait();
  const at::Tensor all = both.cpu();
  const std::int64_t* words = all.const_data_ptr<std::int64_t>();
  return fmt::format("{:016x}{:016x}", static_cast<std::uint64_t>(words[0]),
                     static_cast<std::uint64_t>(words[1]));
}

std::string fingerprint_of(const model::TensorTable& table, const model::Weights& parts, const Mesh& mesh) {
  Fingerprint fingerprint(mesh);
  for (std::size_t i = 0; i < table.blocks.size(); ++i)
    fingerprint.add(table.blocks[i], parts.blocks[i].flat);
  return fingerprint.text();
}

}  // namespace dpo::shard
