#include "base/open_file.h"

#include <cerrno>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

namespace dpo {
namespace {

namespace fs = std::filesystem;

// Returns why a file must not be written to, or nullptr if it may be.
const char* objection(const struct stat& found, Owner owner) {
  if (S_ISLNK(found.st_mode)) return "is a symbolic link";
  if (!S_ISREG(found.st_mode)) return "is not a regular file";
  if (found.st_nlink > 1) return "has several names (hard links)";
  if (owner == Owner::this_user && found.st_uid != ::geteuid()) return "belongs to another user";
  return nullptr;
}

void check(const fs::path& path, const struct stat& found, Owner owner) {
  if (const char* const problem = objection(found, owner))
    throw UserError(fmt::format("{} {}, so nothing is written to it; remove it", path.string(), problem));
}

}  // namespace

int open_to_write(const fs::path& path, int flags, Owner owner) {
  // O_NONBLOCK is set because opening a pipe would wait for its other end.
  constexpr int kAlways = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  const int descriptor = ::open(path.c_str(), flags | kAlways, 0666);
  const int reason = errno;
  struct stat found {};
  if (descriptor < 0) {
    if (reason != EEXIST && ::lstat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode))
      check(path, found, owner);
    errno = reason;
    return -1;
  }
  try {
    if (::fstat(descriptor, &found) == 0) check(path, found, owner);
  } catch (...) {
    ::close(descriptor);
    throw;
  }
  ::fcntl(descriptor, F_SETFL, flags & O_APPEND);  // O_NONBLOCK has a meaning for files on some file systems
  return descriptor;
}

bool may_write_to(const fs::path& path, Owner owner) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 && !objection(found, owner);
}

LineFile::LineFile(const fs::path& path)
    : descriptor_(open_to_write(path, O_WRONLY | O_CREAT | O_APPEND, Owner::anyone)) {}

LineFile::~LineFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool LineFile::add(const std::string& line) {
  const std::string text = (is_cut_ ? "\n" : "") + line + "\n";
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      is_cut_ = is_cut_ || rest.size() < text.size();
      return false;
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  is_cut_ = false;
  return true;
}

void check_regular(const fs::path& path, const std::string& what) {
  const std::string& name = path.native();
  if (name.starts_with("/dev/") || name.starts_with("/proc/")) return;
  std::error_code none;
  const fs::file_status found = fs::status(path, none);
  if (fs::is_fifo(found) || fs::is_socket(found) || fs::is_block_file(found) || fs::is_character_file(found))
    throw UserError(fmt::format("{}: {} is a pipe, a socket or a device, expected a file", what, name));
}

}  // namespace dpo
