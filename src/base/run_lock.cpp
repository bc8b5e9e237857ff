#include "base/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "base/open_file.h"

namespace dpo {
namespace {

namespace fs = std::filesystem;

// Returns 0, or the reason why the file is not locked; EWOULDBLOCK: another process has locked it.
int try_lock(int descriptor) {
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

// Returns whether a path still names an open file. A process that gives up a run removes the lock's file.
bool is_named(const fs::path& path, int descriptor) {
  struct stat named {
  }, opened{};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(descriptor, &opened) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

}  // namespace

RunLock::RunLock(const fs::path& folder) {
  const fs::path file = folder / kName;
  descriptor_ = open_to_write(file, O_RDWR | O_CREAT | O_EXCL, Owner::anyone);
  made_file_ = descriptor_ >= 0;
  if (!made_file_) descriptor_ = open_to_write(file, O_RDWR | O_CREAT, Owner::anyone);
  if (descriptor_ < 0)
    throw UserError(fmt::format("cannot write {}: {}", file.string(), std::strerror(errno)));
  const int problem = try_lock(descriptor_);
  if (problem == EWOULDBLOCK || (problem == 0 && !is_named(file, descriptor_))) {
    ::close(descriptor_);
    throw UserError(fmt::format("{}: another process is writing to this run", folder.string()));
  }
  if (problem != 0)
    warning_ = fmt::format(
        "{}: its file system cannot lock files ({}), so dpo cannot tell whether another process writes to "
        "this "
        "run; make sure that none does",
        folder.string(), std::strerror(problem));
}

RunLock::~RunLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace dpo
