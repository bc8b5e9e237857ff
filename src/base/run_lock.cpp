#include "base/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"
#include "base/open_file.h"

namespace dpo {

RunLock::RunLock(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / kName;
  descriptor_ = open_to_write(file, O_RDWR | O_CREAT, Owner::anyone);
  if (descriptor_ < 0)
    throw UserError(fmt::format("cannot write {}: {}", file.string(), std::strerror(errno)));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(descriptor_);
  throw UserError(fmt::format("{}: another process is writing to this run", folder.string()));
}

RunLock::~RunLock() { ::close(descriptor_); }

}  // namespace dpo
