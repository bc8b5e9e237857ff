#include "base/atomic_file.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/permissions.h"

namespace dpo {

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  // A name of its own, so that two processes that write one file do not mix their bytes.
  std::string name = path_.string() + ".XXXXXX.tmp";
  descriptor_ = mkostemps(name.data(), 4, O_CLOEXEC);
  if (descriptor_ < 0) fail("creating");
  temporary_ = name;
  fchmod(descriptor_, 0666 & ~permission_mask());  // mkstemp makes private files
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("writing");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) fail("writing");
  const int descriptor = std::exchange(descriptor_, -1);
  if (close(descriptor) != 0) fail("closing");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail("renaming");
  temporary_.clear();
  sync_folder(path_.parent_path());
}

void AtomicFile::fail(const char* doing) const {
  const int error = errno;
  throw UserError(fmt::format("{} {} failed: {}{}", doing, path_.string(), std::strerror(error),
                              error == ENOSPC ? "; the old file, if there was one, is untouched" : ""));
}

}  // namespace dpo
