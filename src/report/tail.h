#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::report {

// Follows a file to which another process, perhaps on another machine, adds lines.
class Tail {
 public:
  // Begins with the first line; with `most`, that many bytes before the end of a longer file.
  explicit Tail(std::filesystem::path file, std::uint64_t most = UINT64_MAX)
      : file_(std::move(file)), most_(most) {}

  struct Part {
    std::vector<std::string> lines = {};
    bool restarted = false;  // the file was replaced or shortened: it is read from the beginning again
    bool more = false;       // call again: it has more than is read at once
  };

  // The lines that were completed since the last call. A file that is missing or cannot be read has none.
  Part next();

  // Returns the last line read if it has no end yet; otherwise empty.
  std::string_view last_line() const { return skips_ ? std::string_view() : pending_; }

 private:
  bool continues(int descriptor, std::uint64_t size, dev_t device, ino_t inode) const;
  void add_lines(std::string_view bytes, Part& part);

  std::filesystem::path file_;
  std::uint64_t most_;
  std::uint64_t offset_ = 0;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::string last_;     // the last bytes before the offset
  std::string pending_;  // the beginning of a line that has no end yet
  bool skips_ = false;   // that line is too long, or its beginning was not read
};

// Throws a UserError unless a path is a regular file that can be read. `what` says what it is for ("metrics
// of a run").
void require_readable(const std::filesystem::path& file, const std::string& what);

}  // namespace dpo::report
