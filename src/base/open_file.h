// Opens files in folders that other users may write to, where a name may be a link, a pipe or a device.
#pragma once

#include <filesystem>
#include <string>

namespace dpo {

enum class Owner { this_user, anyone };

// Opens a file to write to it. Returns its descriptor, or -1 with errno. Throws a UserError for a symbolic
// link, a file with several hard links, a pipe or a device, and for a file of another user if `owner` is
// this_user: data would be written elsewhere. `flags` are those of open(2), without O_TRUNC.
int open_to_write(const std::filesystem::path& path, int flags, Owner owner);

// Returns whether open_to_write would accept this file; false if there is none.
bool may_write_to(const std::filesystem::path& path, Owner owner);

// A text file that lines are added to.
class LineFile {
 public:
  explicit LineFile(const std::filesystem::path& path);  // opened by open_to_write
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  // Returns whether the whole line was written; false on a full disk, or if the file cannot be opened.
  bool add(const std::string& line);

 private:
  int descriptor_;
  bool is_cut_ = false;  // the last line is incomplete
};

// Throws a UserError if the path is a pipe, a socket or a device, since opening it may wait forever. Those
// that the shell passes as an argument (/dev/stdin, /dev/fd/N) are accepted. `what` says what the file is for
// ("the configuration").
void check_regular(const std::filesystem::path& path, const std::string& what);

}  // namespace dpo
