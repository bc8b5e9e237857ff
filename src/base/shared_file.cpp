#include "base/shared_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"

namespace dpo {

SharedFile::SharedFile(std::filesystem::path path, std::uint64_t size) : path_(std::move(path)) {
  open(O_CREAT | O_EXCL);
  if (ftruncate(descriptor_, static_cast<off_t>(size)) != 0) {
    const int error = errno;
    close(descriptor_);
    errno = error;
    fail("writing");
  }
}

SharedFile::SharedFile(std::filesystem::path path) : path_(std::move(path)) { open(0); }

void SharedFile::open(int flags) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666);
  if (descriptor_ < 0) fail("opening");
}

SharedFile::~SharedFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void SharedFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("writing");
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void SharedFile::finish() {
  if (fsync(descriptor_) != 0) fail("writing");
  if (close(std::exchange(descriptor_, -1)) != 0) fail("closing");
}

void SharedFile::fail(const char* doing) const {
  throw UserError(fmt::format("{} {} failed: {}", doing, path_.string(), std::strerror(errno)));
}

}  // namespace dpo
