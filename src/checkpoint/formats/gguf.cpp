#include "checkpoint/formats/gguf.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "base/output_files.h"
#include "base/parallel.h"

namespace dpo::checkpoint {
namespace {

constexpr std::uint64_t kGgufAlignment = 32;  // of each tensor's first byte in the file

// Appends values in the encoding of GGUF: little-endian, and lengths of 64 bits before texts and arrays.
class Encoder {
 public:
  template <std::unsigned_integral Number>
  void put(Number number) {
    for (std::size_t i = 0; i < sizeof number; ++i) bytes.push_back(static_cast<char>(number >> (8 * i)));
  }
  void put(std::int32_t number) { put(static_cast<std::uint32_t>(number)); }
  void put(float number) { put(std::bit_cast<std::uint32_t>(number)); }
  void put(bool flag) { bytes.push_back(flag ? 1 : 0); }
  void put(const std::string& text) {
    put(std::uint64_t{text.size()});
    bytes += text;
  }
  template <typename Item>
  void put(const std::vector<Item>& items) {
    put(type_of(Item{}));
    put(std::uint64_t{items.size()});
    for (const Item& item : items) put(item);
  }
  void pad() { bytes.resize((bytes.size() + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment); }

  // Returns GGUF's number for the type of a value.
  static std::uint32_t type_of(std::uint32_t) { return 4; }
  static std::uint32_t type_of(std::int32_t) { return 5; }
  static std::uint32_t type_of(float) { return 6; }
  static std::uint32_t type_of(bool) { return 7; }
  static std::uint32_t type_of(const std::string&) { return 8; }
  template <typename Item>
  static std::uint32_t type_of(const std::vector<Item>&) {
    return 9;
  }

  std::string bytes;
};

std::uint64_t padded(std::uint64_t size) {
  return (size + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment;
}

std::string head_of(const GgufMetadata& metadata, const std::vector<GgufTensor>& tensors) {
  constexpr std::uint32_t kVersion = 3;
  Encoder head;
  head.bytes = "GGUF";
  head.put(kVersion);
  head.put(std::uint64_t{tensors.size()});
  head.put(std::uint64_t{metadata.size()});
  for (const auto& [key, value] : metadata) {
    head.put(key);
    std::visit(
        [&](const auto& held) {
          head.put(Encoder::type_of(held));
          head.put(held);
        },
        value);
  }
  std::uint64_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    head.put(tensor.name);
    head.put(static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size)
      head.put(static_cast<std::uint64_t>(*size));
    head.put(static_cast<std::uint32_t>(tensor.dtype));
    head.put(offset);
    offset += padded(tensor.bytes());
  }
  head.pad();
  return std::move(head.bytes);
}

// Throws if a finite number would become infinite, or if a block has no finite scale.
void check_numbers(const GgufTensor& tensor, std::span<const float> values) {
  constexpr float kTooLargeForF16 = 65520;
  const bool blocks = has_blocks(tensor.dtype);
  const auto is_bad = [blocks](float x) {
    return std::isfinite(x) ? !blocks && std::abs(x) >= kTooLargeForF16 : blocks;
  };
  if (const auto found = std::ranges::find_if(values, is_bad); found != values.end())
    throw UserError(fmt::format("tensor '{}' contains {}, which {} cannot represent; use bf16 or f32",
                                tensor.name, *found, name_of(tensor.dtype)));
}

class TensorWriter {
 public:
  using Progress = std::function<void(std::int64_t done, std::int64_t total)>;

  TensorWriter(AtomicFile& file, const Progress& progress, std::uint64_t total)
      : file_(file), progress_(progress), total_(total) {}

  void write(const GgufTensor& tensor) {
    constexpr std::size_t kPart = std::size_t{1} << 16, kBatch = 64 * kPart;  // numbers, in whole blocks
    const std::span<const float> values = tensor.values();
    for (std::size_t at = 0; at < values.size(); at += kBatch)
      write_batch(tensor, values.subspan(at, std::min(kBatch, values.size() - at)), kPart);
    file_.write(std::string(padded(tensor.bytes()) - tensor.bytes(), '\0'));
  }

 private:
  void write_batch(const GgufTensor& tensor, std::span<const float> values, std::size_t part) {
    if (progress_) progress_(static_cast<std::int64_t>(done_), static_cast<std::int64_t>(total_));
    if (tensor.dtype == GgufDtype::f16 || has_blocks(tensor.dtype)) check_numbers(tensor, values);
    std::vector<std::vector<std::byte>> parts((values.size() + part - 1) / part);
    for_each_parallel(
        parts.size(),
        [&](std::size_t i) {
          parts[i] =
              gguf_bytes(values.subspan(i * part, std::min(part, values.size() - i * part)), tensor.dtype);
        },
        0, 1);
    for (const auto& bytes : parts) {
      file_.write(bytes);
      done_ += bytes.size();
    }
  }

  AtomicFile& file_;
  const Progress& progress_;
  std::uint64_t done_ = 0, total_;
};

}  // namespace

std::string_view name_of(GgufDtype dtype) {
  switch (dtype) {
    case GgufDtype::f32: return "f32";
    case GgufDtype::f16: return "f16";
    case GgufDtype::bf16: return "bf16";
    case GgufDtype::q8_0: return "q8_0";
    case GgufDtype::q4_0: break;
  }
  return "q4_0";
}

std::optional<GgufDtype> gguf_dtype_named(std::string_view name) {
  for (const GgufDtype dtype :
       {GgufDtype::f32, GgufDtype::f16, GgufDtype::bf16, GgufDtype::q8_0, GgufDtype::q4_0})
    if (name_of(dtype) == name) return dtype;
  return std::nullopt;
}

std::int64_t GgufTensor::count() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::uint64_t write_gguf(const std::filesystem::path& path, const GgufMetadata& metadata,
                         const std::vector<GgufTensor>& tensors,
                         const std::function<void(std::int64_t done, std::int64_t total)>& progress) {
  std::uint64_t total = 0, size = 0;
  for (const GgufTensor& tensor : tensors) {
    total += tensor.bytes();
    size += padded(tensor.bytes());
  }
  const std::string head = head_of(metadata, tensors);
  AtomicFile file(path);
  file.write(head);
  TensorWriter writer(file, progress, total);
  for (const GgufTensor& tensor : tensors) writer.write(tensor);
  file.commit();
  return head.size() + size;
}

}  // namespace dpo::checkpoint
