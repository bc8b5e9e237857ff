// Reads files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace dpo {

// Returns the contents of a file. Throws a UserError that names it if it is missing, unreadable or larger
// than `limit` bytes. `what` names its purpose ("the configuration").
std::string read_text_file(const std::filesystem::path& path, const std::string& what,
                           std::size_t limit = 64u << 20);

// Returns true if a file name that was read from a file stays in its folder: it is not absolute and has no
// "..".
bool stays_in_folder(std::string_view name);

// Maps a file into memory; it is read from disk on access and must not change meanwhile.
class MappedFile {
 public:
  // Throws a UserError if the file cannot be opened or mapped. `what` names its purpose ("weights").
  MappedFile(const std::filesystem::path& path, const std::string& what);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// A file that many threads can read at any offset, into the caller's memory. Unlike a mapped file, it uses no
// additional memory, and a failing disk is an error, not a signal.
class PositionedFile {
 public:
  // Throws a UserError if the file cannot be opened. `what` names its purpose ("weights").
  PositionedFile(std::filesystem::path path, std::string what);
  ~PositionedFile();
  PositionedFile(PositionedFile&& other) noexcept;
  PositionedFile& operator=(PositionedFile&& other) noexcept;

  // Fills all of `bytes`. Throws a UserError if the file ends before that.
  void read(std::uint64_t offset, std::span<std::byte> bytes) const;

  // Tells the operating system that these bytes will be read soon.
  void prefetch(std::uint64_t offset, std::uint64_t size) const;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::string what_;
  int descriptor_ = -1;
};

}  // namespace dpo
