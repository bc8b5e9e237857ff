#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "checkpoint/formats/safetensors.h"

namespace dpo::checkpoint {
namespace {

// The order in which the Python library lays out dtypes; it puts those that need wide alignment first.
int place_of(Dtype dtype) {
  constexpr std::array kOrder = {Dtype::I64, Dtype::F64, Dtype::F32, Dtype::I32, Dtype::BF16,
                                 Dtype::F16, Dtype::I16, Dtype::I8,  Dtype::U8,  Dtype::BOOL};
  return static_cast<int>(std::find(kOrder.begin(), kOrder.end(), dtype) - kOrder.begin());
}

std::uint64_t bytes_of(const Source& source) {
  std::uint64_t bytes = size_of(source.dtype);
  for (const std::int64_t size : source.shape) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

std::string header_of(const std::vector<Source>& tensors) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  std::uint64_t offset = 0;
  for (const Source& tensor : tensors) {
    const std::uint64_t end = offset + bytes_of(tensor);
    header[tensor.name] = {
        {"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::vector<Source> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const Source& a, const Source& b) {
    return std::pair(place_of(a.dtype), std::string_view(a.name)) <
           std::pair(place_of(b.dtype), std::string_view(b.name));
  });
  const std::string header = header_of(tensors);
  std::array<char, 8> length{};
  for (std::size_t i = 0; i < length.size(); ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  AtomicFile file(path);
  file.write({length.data(), length.size()});
  file.write(header);
  for (const Source& tensor : tensors) file.write(tensor.bytes());
  file.commit();
}

}  // namespace dpo::checkpoint
