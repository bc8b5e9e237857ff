#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/bytes.h"

namespace dpo::data {

// The characters of a file one by one, with the number of the line they are on.
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

  // Reads up to the end of the line into `text`, without that end (\n or \r\n). False at the end of the file.
  // Of a line longer than `limit`, text holds `limit` + 1 characters.
  bool read_line(std::string& text, std::size_t limit);

 private:
  bool fill();

  std::unique_ptr<ByteReader> bytes_;
  std::vector<char> buffer_;
  std::size_t at_ = 0;
  std::size_t size_ = 0;
  std::int64_t line_ = 1;
};

}  // namespace dpo::data
