// Lines of stdin and stdout, for commands that answer each line with one of their own.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::commands {

// Reads lines of stdin in batches of what is available: a person who types sees each result at once, and a
// full pipe is read in large pieces.
class LineReader {
 public:
  // False at the end. The lines point into memory that the next call changes.
  bool next_batch(std::vector<std::string_view>& lines);

 private:
  void read_more();

  std::string buffer_;
  std::size_t used_ = 0;
  bool ended_ = false;
};

// Writes lines, each with its newline, to stdout at once.
void print_lines(const std::vector<std::string>& lines);

}  // namespace dpo::commands
