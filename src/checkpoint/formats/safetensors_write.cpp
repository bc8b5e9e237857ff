#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/output_files.h"
#include "checkpoint/formats/safetensors.h"

namespace dpo::checkpoint {
namespace {

// The order in which the Python library lays out dtypes; it puts those that need wide alignment first.
int place_of(Dtype dtype) {
  constexpr std::array kOrder = {Dtype::I64, Dtype::F64, Dtype::F32, Dtype::I32, Dtype::BF16,
                                 Dtype::F16, Dtype::I16, Dtype::I8,  Dtype::U8,  Dtype::BOOL};
  return static_cast<int>(std::find(kOrder.begin(), kOrder.end(), dtype) - kOrder.begin());
}

std::string json_of(const std::vector<Entry>& tensors) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  for (const Entry& tensor : tensors)
    header[tensor.name] = {{"dtype", name_of(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {tensor.begin, tensor.end}}};
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

std::uint64_t Entry::bytes() const {
  std::uint64_t bytes = size_of(dtype);
  for (const std::int64_t size : shape) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

SafetensorsPlan plan_safetensors(std::vector<Entry> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const Entry& a, const Entry& b) {
    return std::pair(place_of(a.dtype), std::string_view(a.name)) <
           std::pair(place_of(b.dtype), std::string_view(b.name));
  });
  std::uint64_t end = 0;
  for (Entry& tensor : tensors) {
    tensor.begin = end;
    end = tensor.end = tensor.begin + tensor.bytes();
  }
  const std::string header = json_of(tensors);
  std::string length(8, '\0');
  for (std::size_t i = 0; i < length.size(); ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  return {length + header, std::move(tensors)};
}

void write_safetensors(const std::filesystem::path& path, const std::vector<Source>& tensors) {
  std::vector<Entry> entries;
  std::map<std::string_view, const Source*> named;
  for (const Source& source : tensors) {
    entries.push_back({source.name, source.dtype, source.shape});
    named[source.name] = &source;
  }
  const SafetensorsPlan plan = plan_safetensors(std::move(entries));
  AtomicFile file(path);
  file.write(plan.head);
  for (const Entry& entry : plan.entries) file.write(named.at(entry.name)->bytes());
  file.commit();
}

}  // namespace dpo::checkpoint
