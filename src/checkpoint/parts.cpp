#include "checkpoint/parts.h"

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
      const model::Tensor& tensor = table.blocks[i].tensors[held.tensor];
      if (wanted(tensor))
        parts.push_back(
            {prefix + tensor.name, flats[i].narrow(0, held.to, held.count), std::move(held.runs)});
    }
  return parts;
}

// Where in which file a part's tensor begins.
struct Place {
  std::size_t file = 0;
  std::uint64_t offset = 0;

  auto operator<=>(const Place&) const = default;
};

std::unordered_map<std::string, Place> places_of(const std::vector<TensorFile>& files) {
  std::unordered_map<std::string, Place> places;
  for (std::size_t i = 0; i < files.size(); ++i)
    for (const Entry& entry : files[i].plan.entries)
      places.emplace(entry.name, Place{i, files[i].plan.offset_of(entry)});
  return places;
}

void write_part(SharedFile& file, std::uint64_t offset, const TensorPart& part) {
  const at::Tensor here = part.numbers.cpu();  // one at a time, so that no more than it is in memory twice
  const std::size_t size = here.element_size();
  const auto* next = static_cast<const std::byte*>(here.const_data_ptr());
  for (const model::Run& run : part.runs) {
    const std::size_t bytes = static_cast<std::size_t>(run.count) * size;
    file.write(offset + static_cast<std::uint64_t>(run.from) * size, {next, bytes});
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
  return parts_where([](const model::Tensor&) { return true; }, table, flats, layout, prefix);
}

std::vector<TensorPart> parts_to_write(const model::TensorTable& table, const std::vector<at::Tensor>& flats,
                                       const model::Layout& layout, const std::string& prefix) {
  const auto own = [&](const model::Tensor& tensor) { return tensor.split || layout.tensor_rank == 0; };
  return parts_where(own, table, flats, layout, prefix);
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
                 const std::vector<TensorPart>& parts, const Progress& progress) {
  const std::unordered_map<std::string, Place> places = places_of(files);
  std::vector<std::pair<Place, const TensorPart*>> order;  // that of the disk
  std::int64_t done = 0, all = 0;
  for (const TensorPart& part : parts) {
    order.emplace_back(places.at(part.name), &part);
    all += static_cast<std::int64_t>(part.numbers.nbytes());
  }
  std::sort(order.begin(), order.end());
  std::optional<SharedFile> file;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& [place, part] = order[i];
    if (progress) progress(done, all);
    if (!file) file.emplace(folder / files[place.file].name);
    write_part(*file, place.offset, *part);
    done += static_cast<std::int64_t>(part->numbers.nbytes());
    const bool last = i + 1 == order.size() || order[i + 1].first.file != place.file;
    if (!last) continue;
    file->finish();
    file.reset();
  }
}

}  // namespace dpo::checkpoint
