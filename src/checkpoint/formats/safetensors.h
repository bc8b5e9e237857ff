// checkpoint/formats reads and writes weight files as bytes: safetensors, and the format of torch.save.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace dpo::checkpoint {

enum class Dtype { F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL };

std::string_view name_of(Dtype dtype);
std::size_t size_of(Dtype dtype);  // bytes of one element
std::optional<Dtype> dtype_named(std::string_view name);

// A tensor of a file, whose bytes are at [begin, end) of the data part.
struct Entry {
  std::string name;
  Dtype dtype{};
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;

  std::uint64_t bytes() const;  // by dtype and shape
};

struct Header {
  std::vector<Entry> entries;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
  std::uint64_t data_start = 0;
};

// Reads and checks the header of a safetensors file. Throws a UserError that begins with `origin` if anything
// is wrong. Memory is bounded by the size of the file.
Header parse_safetensors(std::span<const std::byte> file, const std::string& origin);

// A safetensors file, mapped into memory.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const Header& header() const { return header_; }
  std::span<const std::byte> bytes_of(const Entry& entry) const;

 private:
  MappedFile file_;
  Header header_;
};

// The layout of a file to write: everything except the tensors' bytes.
struct SafetensorsPlan {
  std::string head;            // the bytes before the data
  std::vector<Entry> entries;  // in the order of their bytes

  std::uint64_t offset_of(const Entry& entry) const { return head.size() + entry.begin; }  // in the file
  std::uint64_t size() const { return head.size() + (entries.empty() ? 0 : entries.back().end); }
};

// Lays out a file as the Python library does, byte for byte, with metadata {"format": "pt"}. The entries need
// name, dtype and shape, in any order; their offsets are set here.
SafetensorsPlan plan_safetensors(std::vector<Entry> tensors);

// A tensor to write. `bytes` is called once, when the tensor is written, so that not all tensors need to be
// in memory at the same time.
struct TensorToWrite {
  std::string name;
  Dtype dtype{};
  std::vector<std::int64_t> shape;
  std::function<std::span<const std::byte>()> bytes;
};

// Writes a safetensors file. It is complete or absent.
void write_safetensors(const std::filesystem::path& path, const std::vector<TensorToWrite>& tensors);

}  // namespace dpo::checkpoint
