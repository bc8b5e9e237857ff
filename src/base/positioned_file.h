#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace dpo {

// A file that is read at any place, by many threads at once, into memory that the caller has. Unlike a mapped
// one it never takes memory of its own, and a failing disk is an error and not a signal.
class PositionedFile {
 public:
  // What cannot be opened is a UserError; `what` says what the file is for ("weights").
  PositionedFile(std::filesystem::path path, std::string what);
  ~PositionedFile();
  PositionedFile(PositionedFile&& other) noexcept;
  PositionedFile& operator=(PositionedFile&& other) noexcept;

  // Fills all of `bytes`; a file that ends before is a UserError.
  void read(std::uint64_t offset, std::span<std::byte> bytes) const;

  // Tells the system that these bytes will be read soon.
  void announce(std::uint64_t offset, std::uint64_t size) const;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::string what_;
  int descriptor_ = -1;
};

}  // namespace dpo
