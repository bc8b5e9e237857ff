#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace dpo::data {

// The bytes of a file, uncompressed, from its beginning to its end.
class ByteReader {
 public:
  virtual ~ByteReader() = default;

  // Fills the front of `into` and returns how much; 0 at the end.
  virtual std::size_t read(std::span<char> into) = 0;
};

// Opens a plain, gzip or zstd file; its first bytes say which. A damaged or endless file, and a Git LFS
// pointer in the place of one, is a UserError that names it.
std::unique_ptr<ByteReader> open_bytes(const std::filesystem::path& file);

}  // namespace dpo::data
