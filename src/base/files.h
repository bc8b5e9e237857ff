// Files that are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace dpo {

// The whole file. A missing, unreadable or absurdly large file (over `limit` bytes) is a UserError that
// names it; `what` says what the file is for ("the configuration").
std::string read_text_file(const std::filesystem::path& path, const std::string& what,
                           std::size_t limit = 64u << 20);

// Whether a file name that was read from a file stays in its folder: not absolute, no ".." and the like.
bool stays_in_folder(std::string_view name);

// A whole file as bytes, read from disk on access. The file must not change meanwhile.
class MappedFile {
 public:
  // What cannot be opened or mapped is a UserError; `what` says what the file is for ("weights").
  MappedFile(const std::filesystem::path& path, const std::string& what);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// A file that many threads can read at any offset at once, into memory of the caller. Unlike a mapped file it
// uses no memory of its own, and a failing disk is an error, not a signal.
class PositionedFile {
 public:
  // What cannot be opened is a UserError; `what` says what the file is for ("weights").
  PositionedFile(std::filesystem::path path, std::string what);
  ~PositionedFile();
  PositionedFile(PositionedFile&& other) noexcept;
  PositionedFile& operator=(PositionedFile&& other) noexcept;

  // Fills all of `bytes`; a file that ends earlier is a UserError.
  void read(std::uint64_t offset, std::span<std::byte> bytes) const;

  // Tells the system that these bytes will be read soon.
  void prefetch(std::uint64_t offset, std::uint64_t size) const;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::string what_;
  int descriptor_ = -1;
};

}  // namespace dpo
