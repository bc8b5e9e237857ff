#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dpo::data {

// Reads the uncompressed bytes of a file from beginning to end.
class ByteReader {
 public:
  virtual ~ByteReader() = default;

  // Fills `into` from its start and returns the number of bytes, or 0 at the end of the file.
  virtual std::size_t read(std::span<char> into) = 0;
};

// Opens a plain, gzip or zstd file, which is recognized by its first bytes. Throws a UserError that names the
// file for a damaged file, a decompression bomb or a Git LFS pointer.
std::unique_ptr<ByteReader> open_bytes(const std::filesystem::path& file);

// Reads a file byte by byte, without a byte order mark at its start, and counts its lines.
class CharReader {
 public:
  static constexpr int kEnd = -1;

  explicit CharReader(std::unique_ptr<ByteReader> bytes);

  int peek() { return at_ < size_ || fill() ? static_cast<unsigned char>(buffer_[at_]) : kEnd; }
  int next() {
    const int c = peek();
    at_ += c != kEnd;
    line_ += c == '\n';
    return c;
  }
  std::int64_t line() const { return line_; }

  // Reads the next line that is not blank into `text`, without \n or \r\n. Returns its line number, or 0 at
  // the end of the file. A line longer than `limit` bytes is cut to `limit` + 1 bytes.
  std::int64_t read_line(std::string& text, std::size_t limit);

 private:
  bool fill();
  void read_to_end_of_line(std::string& text, std::size_t limit);

  std::unique_ptr<ByteReader> bytes_;
  std::vector<char> buffer_;
  std::size_t at_ = 0;
  std::size_t size_ = 0;
  std::int64_t line_ = 1;
};

}  // namespace dpo::data
