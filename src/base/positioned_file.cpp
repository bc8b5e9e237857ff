#include "base/positioned_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/error.h"

namespace dpo {

PositionedFile::PositionedFile(std::filesystem::path path, std::string what)
    : path_(std::move(path)), what_(std::move(what)), descriptor_(open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0)
    throw UserError(fmt::format("{}: cannot read {}: {}", what_, path_.string(), std::strerror(errno)));
}

PositionedFile::~PositionedFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

PositionedFile::PositionedFile(PositionedFile&& other) noexcept
    : path_(std::move(other.path_)),
      what_(std::move(other.what_)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

PositionedFile& PositionedFile::operator=(PositionedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(what_, other.what_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void PositionedFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      throw UserError(fmt::format("{}: reading {} at byte {} failed: {}", what_, path_.string(), offset,
                                  count == 0 ? "the file ends there" : std::strerror(errno)));
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void PositionedFile::announce(std::uint64_t offset, std::uint64_t size) const {
  posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(size), POSIX_FADV_WILLNEED);
}

}  // namespace dpo
