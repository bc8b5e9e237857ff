#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::report {

// Follows a file to which another process, perhaps on another machine, appends lines.
class Tail {
 public:
  // Starts at the first line, or with `most`, that many bytes before the end of a longer file.
  explicit Tail(std::filesystem::path file, std::uint64_t most = UINT64_MAX)
      : file_(std::move(file)), most_(most) {}

  struct Part {
    std::vector<std::string> lines = {};
    bool restarted = false;  // the file was replaced or shortened, and is read from the beginning again
    bool more = false;       // more can be read at once; call again
  };

  // Returns the lines that were completed since the last call. A missing or unreadable file has none.
  Part next();

  // Returns the last line if it has no line end yet, or "".
  std::string_view last_line() const { return skips_ ? std::string_view() : pending_; }

 private:
  bool continues(int descriptor, std::uint64_t size, dev_t device, ino_t inode) const;
  void add_lines(std::string_view bytes, Part& part);

  std::filesystem::path file_;
  std::uint64_t most_;
  std::uint64_t offset_ = 0;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::string last_;     // the last bytes before offset_
  std::string pending_;  // the beginning of a line that has no end yet
  bool skips_ = false;   // skips the current line: it is too long, or its beginning was not read
};

// Throws UserError unless `file` is a readable regular file. `what` names its purpose in the message
// ("metrics of a run").
void require_readable(const std::filesystem::path& file, const std::string& what);

}  // namespace dpo::report
