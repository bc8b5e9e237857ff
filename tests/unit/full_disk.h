#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <string>

namespace dpo {

// Makes later writes to a file that this process has open fail as on a full disk: /dev/full replaces the
// file.
inline void fill_disk_of(const std::filesystem::path& file) {
  namespace fs = std::filesystem;
  const int full = ::open("/dev/full", O_RDWR | O_CLOEXEC);
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code closed;
    if (fs::read_symlink(entry.path(), closed) != file) continue;
    int descriptor = -1;
    const std::string number = entry.path().filename().string();
    std::from_chars(number.data(), number.data() + number.size(), descriptor);
    ::dup3(full, descriptor, O_CLOEXEC);
  }
  ::close(full);
}

}  // namespace dpo
