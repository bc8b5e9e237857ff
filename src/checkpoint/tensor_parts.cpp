#include "checkpoint/tensor_parts.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "base/output_files.h"

namespace dpo::checkpoint {
namespace {

template <class Wanted>
std::vector<TensorPart> parts_where(const Wanted& wanted, const model::TensorTable& table,
                                    const std::vector<at::Tensor>& flats, const model::Layout& layout,
                                    const std::string& prefix) {
  std::vector<TensorPart> parts;
  for (std::size_t i = 0; i < table.blocks.size(); ++i)
    for (model::HeldTensor& held : model::held_tensors(table.blocks[i], layout)) {
      const model::TensorInfo& tensor = table.blocks[i].tensors[held.tensor];
      if (wanted(tensor))
        parts.push_back(
            {prefix + tensor.name, flats[i].narrow(0, held.to, held.count), std::move(held.ranges)});
    }
  return parts;
}

// Position of a tensor's first byte.
struct FilePosition {
  std::size_t file = 0;
  std::uint64_t offset = 0;

  auto operator<=>(const FilePosition&) const = default;
};

std::unordered_map<std::string, FilePosition> positions_of(const std::vector<TensorFile>& files) {
  std::unordered_map<std::string, FilePosition> positions;
  for (std::size_t i = 0; i < files.size(); ++i)
    for (const Entry& entry : files[i].plan.entries)
      positions.emplace(entry.name, FilePosition{i, files[i].plan.offset_of(entry)});
  return positions;
}

void write_part(SharedFile& file, std::uint64_t offset, const TensorPart& part) {
  const at::Tensor on_host = part.values.cpu();  // one part at a time, to save memory
  const std::size_t size = on_host.element_size();
  const auto* next = static_cast<const std::byte*>(on_host.const_data_ptr());
  for (const model::Range& range : part.ranges) {
    const std::size_t bytes = static_cast<std::size_t>(range.count) * size;
    file.write(offset + static_cast<std::uint64_t>(range.from) * size, {next, bytes});
    next += bytes;
  }
}

}  // namespace

std::vector<at::Tensor> flats_of(const model::Weights& weights) {
  std::vector<at::Tensor> flats;
  for (const model::BlockWeights& block : weights.blocks) flats.push_back(block.flat);
  return flats;
}

std::vector<TensorPart> parts_of(const model::TensorTable& table, const std::vector<at::Tensor>& flats,
                                 const model::Layout& layout, const std::string& prefix) {
  return parts_where([](const model::TensorInfo&) { return true; }, table, flats, layout, prefix);
}

std::vector<TensorPart> parts_to_write(const model::TensorTable& table, const std::vector<at::Tensor>& flats,
                                       const model::Layout& layout, const std::string& prefix) {
  const auto own = [&](const model::TensorInfo& tensor) { return tensor.split || layout.tensor_rank == 0; };
  return parts_where(own, table, flats, layout, prefix);
}

std::vector<std::int64_t> group_shape(const model::Block& block, const model::Layout& layout,
                                      std::int64_t group) {
  const model::Layout unsharded{.tensor_ranks = layout.tensor_ranks};
  return {layout.tensor_ranks, model::block_size(block, unsharded).size / group};
}

std::vector<TensorPart> group_parts_of(const model::TensorTable& table, const std::vector<at::Tensor>& flats,
                                       const model::Layout& layout, const std::string& prefix) {
  std::vector<TensorPart> parts;
  for (std::size_t i = 0; i < table.blocks.size(); ++i) {
    const model::Block& block = table.blocks[i];
    const std::int64_t group = model::block_size(block, layout).shard_size / flats[i].numel();
    const std::int64_t all = group_shape(block, layout, group)[1];
    const std::int64_t from = layout.shard_rank * flats[i].numel();
    const std::int64_t count = std::min(flats[i].numel(), all - from);  // the rest is padding
    if (count > 0)
      parts.push_back({prefix + std::to_string(i),
                       flats[i].narrow(0, 0, count),
                       {{layout.tensor_rank * all + from, count}}});
  }
  return parts;
}

TensorPart whole_part(std::string name, const at::Tensor& tensor) {
  return {std::move(name), tensor.view({-1}), {{0, tensor.numel()}}};
}

void make_files(const std::filesystem::path& folder, const std::vector<TensorFile>& files) {
  for (const TensorFile& planned : files) {
    SharedFile file(folder / planned.name, planned.plan.size());
    file.write(0, planned.plan.head);
    file.finish();
  }
}

void write_parts(const std::filesystem::path& folder, const std::vector<TensorFile>& files,
                 const std::vector<TensorPart>& parts, const ProgressCallback& progress) {
  const std::unordered_map<std::string, FilePosition> positions = positions_of(files);
  std::vector<std::pair<FilePosition, const TensorPart*>> order;  // sorted by position on disk
  std::int64_t done = 0, total = 0;
  for (const TensorPart& part : parts) {
    order.emplace_back(positions.at(part.name), &part);
    total += static_cast<std::int64_t>(part.values.nbytes());
  }
  std::sort(order.begin(), order.end());
  std::optional<SharedFile> file;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& [position, part] = order[i];
    if (progress) progress(done, total);
    if (!file) file.emplace(folder / files[position.file].name);
    write_part(*file, position.offset, *part);
    done += static_cast<std::int64_t>(part->values.nbytes());
    const bool last = i + 1 == order.size() || order[i + 1].first.file != position.file;
    if (!last) continue;
    file->finish();
    file.reset();
  }
}

}  // namespace dpo::checkpoint
