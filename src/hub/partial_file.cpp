#include "hub/partial_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/stop.h"

namespace dpo::hub {

PartialFile::PartialFile(std::filesystem::path path, const std::string& expected_hash,
                         std::int64_t whole_size)
    : path_(std::move(path)), hash_(expected_hash, whole_size) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  struct stat status {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) fail("create");
  if (status.st_size > whole_size) {
    restart();
    return;
  }
  std::vector<char> piece(1u << 20);
  while (size_ < status.st_size) {
    const ssize_t count = ::pread(descriptor_, piece.data(), piece.size(), size_);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("read");
    if (stop_requested()) throw Stopped();
    hash_.add({piece.data(), static_cast<std::size_t>(count)});
    size_ += count;
  }
}

PartialFile::~PartialFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void PartialFile::append(std::string_view bytes) {
  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t count = ::pwrite(descriptor_, rest.data(), rest.size(), size_);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("write");
    hash_.add(rest.substr(0, static_cast<std::size_t>(count)));
    size_ += count;
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
}

void PartialFile::restart() {
  if (::ftruncate(descriptor_, 0) != 0) fail("empty");
  size_ = 0;
  hash_.restart();
}

void PartialFile::rename_to(const std::filesystem::path& to) {
  if (::fsync(descriptor_) != 0) fail("sync");
  // Where locks do not work, another process may have renamed it.
  std::error_code none;
  if (::rename(path_.c_str(), to.c_str()) != 0 && !std::filesystem::exists(to, none)) fail("rename");
}

void PartialFile::fail(const char* doing) const {
  const int error = errno;
  const bool full = error == ENOSPC || error == EDQUOT;
  throw UserError(
      fmt::format("Hugging Face cache: cannot {} {}: {}{}", doing, path_.string(), std::strerror(error),
                  full ? "; what was downloaded is kept and continued: free some space and try again, or set "
                         "HF_HUB_CACHE=DIR to a folder on another disk"
                       : "; HF_HUB_CACHE=DIR uses another folder"));
}

}  // namespace dpo::hub
