#include "base/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"

namespace dpo {

MemoryFile::MemoryFile(std::string_view text) : descriptor_(::memfd_create("input", MFD_CLOEXEC)) {
  while (descriptor_ >= 0 && !text.empty()) {
    const ssize_t count = ::write(descriptor_, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  if (descriptor_ >= 0 && text.empty() && ::lseek(descriptor_, 0, SEEK_SET) == 0) return;
  const int reason = errno;
  if (descriptor_ >= 0) ::close(descriptor_);
  throw UserError(fmt::format("cannot write a file in memory: {}", std::strerror(reason)));
}

MemoryFile::~MemoryFile() { ::close(descriptor_); }

}  // namespace dpo
