#include "base/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/open_file.h"

namespace dpo {

namespace fs = std::filesystem;

RunLock::RunLock(const fs::path& folder) {
  const fs::path file = folder / kName;
  descriptor_ = open_to_write(file, O_RDWR | O_CREAT | O_EXCL, Owner::anyone);
  made_file_ = descriptor_ >= 0;
  if (!made_file_) descriptor_ = open_to_write(file, O_RDWR | O_CREAT, Owner::anyone);
  if (descriptor_ < 0)
    throw UserError(fmt::format("cannot write {}: {}", file.string(), std::strerror(errno)));
  const int problem = lock_file(descriptor_, LOCK_EX | LOCK_NB);
  // The lock's file may be gone, because a process that gives up a run removes it.
  if (problem == EWOULDBLOCK || (problem == 0 && !is_still_at(descriptor_, file))) {
    ::close(descriptor_);
    throw UserError(fmt::format("{}: another process is writing to this run", folder.string()));
  }
  if (problem != 0)
    warning_ = fmt::format(
        "{}: its file system cannot lock files ({}), so dpo cannot tell whether another process writes to "
        "this run; make sure that none does",
        folder.string(), std::strerror(problem));
}

RunLock::~RunLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace dpo
