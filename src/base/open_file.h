// Opening files in folders where other users may have chosen what is behind a name.
#pragma once

#include <filesystem>
#include <string>

namespace dpo {

enum class Owner { this_user, anyone };

// Opens a file to write to it. Returns its descriptor, or -1 with errno. A symbolic link, a second name (hard
// link) of some other file, a pipe or a device is a UserError, and so is a file of another user if `owner` is
// this_user: what is written would go elsewhere. `flags` as for open(2), without O_TRUNC.
int open_to_write(const std::filesystem::path& path, int flags, Owner owner);

// A text file that lines are added to.
class LineFile {
 public:
  explicit LineFile(const std::filesystem::path& path);  // opened by open_to_write
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // Whether the whole line is in the file; it is not on a full disk, or where the file cannot be opened.
  bool add(const std::string& line);

 private:
  int descriptor_;
  bool is_cut_ = false;  // the last line is incomplete
};

// A UserError if a pipe, a socket or a device is where a file should be: opening it may wait for ever. Those
// that the shell gives as an argument (/dev/stdin, /dev/fd/N) are not refused. `what` says what the file is
// for ("the configuration").
void check_regular(const std::filesystem::path& path, const std::string& what);

}  // namespace dpo
