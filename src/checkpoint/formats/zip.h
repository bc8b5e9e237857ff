#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/output_files.h"

namespace dpo::checkpoint {

// Returns the files of an uncompressed zip archive, as PyTorch writes it, by name. Throws a UserError that
// begins with `origin` if anything is damaged, compressed or beyond the end of the archive.
std::map<std::string, std::span<const std::byte>> read_stored_zip(std::span<const std::byte> archive,
                                                                  const std::string& origin);

// Writes a zip archive of uncompressed files as PyTorch does: each file's bytes begin at a multiple of 64.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file) : file_(file) {}

  void add(const std::string& name, std::span<const std::byte> bytes);
  void add(const std::string& name, std::string_view text) { add(name, std::as_bytes(std::span(text))); }
  void finish();  // writes the directory

 private:
  struct Entry {
    std::string name;
    std::uint32_t checksum = 0;
    std::uint64_t size = 0;
    std::uint64_t offset = 0;  // of its local header
  };

  void write(std::string_view text);

  AtomicFile& file_;
  std::uint64_t written_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace dpo::checkpoint
