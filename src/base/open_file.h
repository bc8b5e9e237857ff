// Opens files in folders that other users may write to, where a file may be a link, a pipe or a device.
#pragma once

#include <filesystem>
#include <string>

namespace dpo {

enum class Owner { this_user, anyone };

// Opens a file for writing and returns its descriptor, or -1 with errno set. Throws a UserError for a
// symbolic link, a file with several hard links, a pipe or a device, because data would be written elsewhere.
// Also throws for another user's file if `owner` is this_user. `flags` are those of open(2), without O_TRUNC.
int open_to_write(const std::filesystem::path& path, int flags, Owner owner);

// Returns true if the file exists and open_to_write would accept it.
bool may_write_to(const std::filesystem::path& path, Owner owner);

// A text file to which lines are appended.
class LineFile {
 public:
  explicit LineFile(const std::filesystem::path& path);  // opened by open_to_write
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // Returns true if the whole line was written, or false on a full disk or if the file cannot be opened.
  bool add(const std::string& line);

 private:
  int descriptor_;
  bool is_cut_ = false;  // true if the last line is incomplete
};

// Throws a UserError if the path is a pipe, a socket or a device, because opening it may wait forever. Paths
// that the shell passes as arguments (/dev/stdin, /dev/fd/N) are accepted. `what` names the file's purpose
// ("the configuration").
void check_regular(const std::filesystem::path& path, const std::string& what);

}  // namespace dpo
