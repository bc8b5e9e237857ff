#include "model/spec/layout.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/number_formats.h"

namespace dpo::model {
namespace {

// Every tensor starts at a multiple of this many elements: 128 bytes in bfloat16, the alignment that vector
// instructions and matrix kernels prefer.
constexpr std::int64_t kAlignment = 64;

std::int64_t aligned(std::int64_t count, std::int64_t to) { return (count + to - 1) / to * to; }

std::int64_t product(std::vector<std::int64_t>::const_iterator begin,
                     std::vector<std::int64_t>::const_iterator end) {
  return std::accumulate(begin, end, std::int64_t{1}, std::multiplies<>());
}

LocalTensor whole(const TensorInfo& tensor) { return {tensor.shape, {{0, tensor.count()}}}; }

// Returns a rank's part of a tensor. Each section of the split dimension is split over the ranks separately.
// Only a tensor without sections (the vocabulary's rows) may be split unevenly; the last rank then has fewer.
LocalTensor local_tensor(const TensorInfo& tensor, const Layout& layout) {
  if (!tensor.split || layout.tensor_ranks == 1) return whole(tensor);
  const auto dimension = tensor.shape.begin() + *tensor.split;
  const std::int64_t inner = product(dimension + 1, tensor.shape.end());
  LocalTensor local{
      tensor.shape, {}, product(tensor.shape.begin(), dimension), /*stride=*/*dimension * inner, 0};
  std::int64_t sum = 0, passed = 0;
  for (const std::int64_t section : tensor.sections.empty() ? std::vector{*dimension} : tensor.sections) {
    const std::int64_t share = (section + layout.tensor_ranks - 1) / layout.tensor_ranks;
    const std::int64_t begin = std::min(section, layout.tensor_rank * share);
    const std::int64_t size = std::min(section, begin + share) - begin;
    local.ranges.push_back({(passed + begin) * inner, size * inner});
    sum += size;
    passed += section;
  }
  local.shape[static_cast<std::size_t>(*tensor.split)] = sum;
  return local;
}

// Returns the elements on the first tensor-parallel rank. No rank has more.
std::int64_t count_on_first_rank(const TensorInfo& tensor, std::int64_t ranks) {
  if (!tensor.split || ranks == 1) return tensor.count();
  const std::int64_t dimension = tensor.shape[static_cast<std::size_t>(*tensor.split)];
  std::int64_t share = tensor.sections.empty() ? (dimension + ranks - 1) / ranks : 0;
  for (const std::int64_t section : tensor.sections) share += (section + ranks - 1) / ranks;
  return tensor.count() / dimension * share;
}

// Returns where tensor `i` of a block starts if those before it end at `end`. Replicated and split tensors of
// tensor-parallel ranks share no group of 8-bit state, because its scale would differ from rank to rank.
std::int64_t start_of(const Block& block, std::size_t i, std::int64_t end) {
  const auto is_split = [&](std::size_t of) { return block.tensors[of].split.has_value(); };
  return aligned(end, i > 0 && is_split(i - 1) != is_split(i) ? kStateGroup : kAlignment);
}

}  // namespace

std::int64_t LocalTensor::count() const { return product(shape.begin(), shape.end()); }

LocalBlock local_block(const Block& block, const Layout& layout) {
  LocalBlock local;
  for (std::size_t i = 0; i < block.tensors.size(); ++i) {
    LocalTensor part = local_tensor(block.tensors[i], layout);
    part.start = start_of(block, i, local.size);
    // Every rank reserves as much as the first rank needs. Replicated tensors then have the same offset on
    // all tensor-parallel ranks and are rounded with the same random numbers.
    local.size = part.start + count_on_first_rank(block.tensors[i], layout.tensor_ranks);
    local.tensors.push_back(std::move(part));
  }
  const BlockSize sizes = block_size(block, layout);
  local.size = sizes.size;
  local.shard_size = sizes.shard_size;
  return local;
}

std::vector<std::size_t> spread_blocks(const TensorTable& table, std::size_t devices) {
  const double share = static_cast<double>(table.count()) / static_cast<double>(devices);
  std::vector<std::size_t> device_of_block;
  double passed = 0;
  for (const Block& block : table.blocks) {
    const auto size = static_cast<double>(block.count());
    const auto device = static_cast<std::size_t>((passed + size / 2) / share);
    device_of_block.push_back(std::min(device, devices - 1));
    passed += size;
  }
  return device_of_block;
}

BlockSize block_size(const Block& block, const Layout& layout) {
  std::int64_t filled = 0;
  for (std::size_t i = 0; i < block.tensors.size(); ++i)
    filled = start_of(block, i, filled) + count_on_first_rank(block.tensors[i], layout.tensor_ranks);
  // A shard is never empty, even if an adapter has nothing in a block, because collectives and kernels need
  // elements. It has whole groups, so that the scales of 8-bit state do not depend on the number of shards.
  const std::int64_t shard =
      aligned(std::max<std::int64_t>(1, (filled + layout.shard_ranks - 1) / layout.shard_ranks), kStateGroup);
  return {shard * layout.shard_ranks, shard};
}

std::int64_t nf4_group_on_ranks(const TensorInfo& tensor, std::int64_t ranks, std::int64_t block) {
  if (!tensor.split || ranks == 1) return block;
  const auto dimension = tensor.shape.begin() + *tensor.split;
  const std::int64_t inner = product(dimension + 1, tensor.shape.end());
  if (*tensor.split > 0) block = std::gcd(block, *dimension * inner);
  for (const std::int64_t section : tensor.sections.empty() ? std::vector{*dimension} : tensor.sections)
    block = std::gcd(block, section / ranks * inner);
  return block;
}

std::vector<Piece> pieces_of(const Block& block, const Layout& layout) {
  const LocalBlock local = local_block(block, layout);
  const std::int64_t own_begin = layout.shard_rank * local.shard_size;
  const std::int64_t own_end = own_begin + local.shard_size;
  std::vector<Piece> pieces;
  for (std::size_t t = 0; t < local.tensors.size(); ++t) {
    const LocalTensor& tensor = local.tensors[t];
    std::int64_t start = tensor.start;  // start of a range in the buffer
    for (std::int64_t repeat = 0; repeat < tensor.repeats; ++repeat)
      for (const Range& range : tensor.ranges) {
        const std::int64_t begin = std::max(start, own_begin);
        const std::int64_t end = std::min(start + range.count, own_end);
        if (begin < end)
          pieces.push_back(
              {t, range.from + repeat * tensor.stride + (begin - start), begin - own_begin, end - begin});
        start += range.count;
      }
  }
  return pieces;
}

std::vector<HeldTensor> held_tensors(const Block& block, const Layout& layout) {
  std::vector<HeldTensor> held;
  for (const Piece& piece : pieces_of(block, layout)) {
    if (held.empty() || held.back().tensor != piece.tensor) held.push_back({piece.tensor, piece.to, 0, {}});
    held.back().count += piece.count;
    held.back().ranges.push_back({piece.from, piece.count});
  }
  return held;
}

}  // namespace dpo::model
