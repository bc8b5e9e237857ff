// checkpoint/formats: files of weights as bytes: safetensors, and what torch.save wrote.
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

// A tensor of a file: its bytes stand at [begin, end) of the data part.
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

// Reads and checks the head of a safetensors file from its bytes. Whatever is wrong is a UserError that
// begins with `origin`; nothing is allocated beyond the size of the file.
Header parse_safetensors(std::span<const std::byte> file, const std::string& origin);

// A file of weights, mapped.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const Header& header() const { return header_; }
  std::span<const std::byte> bytes_of(const Entry& entry) const;

 private:
  MappedFile file_;
  Header header_;
};

// A file that is to be written: all of it but the tensors' bytes.
struct SafetensorsPlan {
  std::string head;            // the bytes before the data
  std::vector<Entry> entries;  // in the order of their bytes

  std::uint64_t offset_of(const Entry& entry) const { return head.size() + entry.begin; }  // in the file
  std::uint64_t size() const { return head.size() + (entries.empty() ? 0 : entries.back().end); }
};

// The file of these tensors as the Python library lays it out, byte for byte, with metadata {"format": "pt"}.
// Names, dtypes and shapes are given, in any order; where the bytes stand is found.
SafetensorsPlan plan_safetensors(std::vector<Entry> tensors);

// A tensor to write: `bytes` is called once, when its turn comes, so that not all need to be in memory at
// once.
struct Source {
  std::string name;
  Dtype dtype{};
  std::vector<std::int64_t> shape;
  std::function<std::span<const std::byte>()> bytes;
};

// Writes such a file. It is complete or absent.
void write_safetensors(const std::filesystem::path& path, const std::vector<Source>& tensors);

}  // namespace dpo::checkpoint
