#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/progress_count.h"

namespace dpo {
namespace {

constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;  // O_NONBLOCK because opening a pipe waits

}  // namespace

int lock_file(int descriptor, int operation) {
  while (flock(descriptor, operation) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

bool is_still_at(int descriptor, const std::filesystem::path& path) {
  struct stat opened {
  }, found{};
  return fstat(descriptor, &opened) == 0 && stat(path.c_str(), &found) == 0 &&
         opened.st_ino == found.st_ino && opened.st_dev == found.st_dev;
}

FileLock::FileLock(const std::filesystem::path& file, Kind kind) {
  const bool creates = kind == Kind::exclusive;
  do {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = open(file.c_str(), kFlags | (creates ? O_CREAT | O_RDWR : O_RDONLY), 0666);
    if (descriptor_ < 0) return;
    const WaitingForOthers waiting;
    lock_file(descriptor_, creates ? LOCK_EX : LOCK_SH);
  } while (!is_still_at(descriptor_, file));
}

std::optional<FileLock> FileLock::try_exclusive(const std::filesystem::path& file) {
  FileLock held(open(file.c_str(), kFlags | O_RDWR));
  if (held.descriptor_ >= 0 && lock_file(held.descriptor_, LOCK_EX | LOCK_NB) == EWOULDBLOCK)
    return std::nullopt;
  return held;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

FileLock::FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

std::filesystem::path lock_of(const std::filesystem::path& path) {
  return std::filesystem::path(path) += ".lock";
}

}  // namespace dpo
