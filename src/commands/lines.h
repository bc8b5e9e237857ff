// Reads and writes lines of stdin and stdout, for commands that answer each line with another.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::commands {

// Reads the lines that are available on stdin in batches. A user who types sees each result at once, and a
// full pipe is read in large pieces.
class LineReader {
 public:
  // Returns false at the end. The lines point into memory that the next call changes.
  bool next_batch(std::vector<std::string_view>& lines);

 private:
  void read_more();

  std::string buffer_;
  std::size_t used_ = 0;
  bool ended_ = false;
};

// Writes lines, which end with a newline, to stdout and flushes it.
void print_lines(const std::vector<std::string>& lines);

}  // namespace dpo::commands
