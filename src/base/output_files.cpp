#include "base/output_files.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/open_file.h"
#include "base/progress_count.h"
#include "base/user_path.h"

namespace dpo {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* doing, const fs::path& path) {
  throw UserError(fmt::format("{} the folder {} failed: {}", doing, path.string(), std::strerror(errno)));
}

// Returns true if the system does not support an operation on this file or folder. Other errors are disk
// failures.
bool is_unsupported(int error) { return error == EINVAL || error == ENOSYS || error == ENOTSUP; }

// Linux frees the descriptor even if a signal interrupts close().
bool is_closed(int descriptor) { return ::close(descriptor) == 0 || errno == EINTR; }

// Returns the umask. Reading it requires setting it, which other threads that create files would notice, so
// it is read only once.
mode_t permission_mask() {
  static const mode_t mask = [] {
    const mode_t found = umask(0);
    umask(found);
    return found;
  }();
  return mask;
}

}  // namespace

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  // A unique name keeps two processes that write the same file from mixing their bytes.
  std::string name = path_.string() + ".XXXXXX.tmp";
  descriptor_ = mkostemps(name.data(), 4, O_CLOEXEC);
  if (descriptor_ < 0) fail("creating");
  temporary_ = name;
  fchmod(descriptor_, 0666 & ~permission_mask());  // mkostemps makes private files
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
    count_progress();
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  if (!sync_to_disk(descriptor_)) fail("writing");
  if (!is_closed(std::exchange(descriptor_, -1))) fail("closing");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail("renaming");
  temporary_.clear();
  sync_folder(path_.parent_path());
}

void AtomicFile::fail(const char* doing) const {
  const int error = errno;
  throw UserError(fmt::format(
      "{} {} failed: {}{}", doing, path_.string(), std::strerror(error),
      error == ENOSPC || error == EDQUOT ? "; the old file, if there was one, is unchanged" : ""));
}

void write_file(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

AtomicFolder::AtomicFolder(fs::path path) : path_(without_slash(path)) {
  // A unique name keeps two processes that write the same folder from mixing their files.
  std::string name = path_.string() + ".tmp.XXXXXX";
  if (!mkdtemp(name.data())) fail("creating", path_);
  temporary_ = name;
  chmod(name.c_str(), 0777 & ~permission_mask());  // mkdtemp makes private folders
}

AtomicFolder::AtomicFolder(fs::path path, fs::path temporary) : path_(without_slash(path)) {
  if (mkdir(temporary.c_str(), 0777) != 0) fail("creating", temporary);
  temporary_ = std::move(temporary);
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void AtomicFolder::commit() {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(temporary_))
    if (entry.is_directory()) sync_folder(entry.path());
  sync_folder(temporary_);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("renaming", path_);
  temporary_.clear();
  sync_folder(path_.parent_path());
}

fs::path move_aside(const fs::path& path) {
  const fs::path place = without_slash(path);
  fs::path aside;
  for (int i = 1; aside.empty() || fs::exists(fs::symlink_status(aside)); ++i)
    aside = fmt::format("{}.old-{}", place.string(), i);
  if (std::rename(place.c_str(), aside.c_str()) != 0) fail("renaming", place);
  sync_folder(place.parent_path());
  return aside;
}

void check_absent(const fs::path& path) {
  std::error_code none;
  const fs::path place = without_slash(path);
  const fs::file_status status = fs::symlink_status(place, none);
  if (fs::is_directory(status)) {
    if (!fs::is_empty(place, none))
      throw UserError(
          fmt::format("{} exists and is not empty; choose another path, or remove it", path.string()));
  } else if (fs::exists(status)) {
    throw UserError(fmt::format("{} exists; choose another path, or remove it", path.string()));
  }
  const fs::path parent = place.has_parent_path() ? place.parent_path() : fs::path(".");
  if (!fs::is_directory(parent, none))
    throw UserError(fmt::format("cannot create {}: there is no folder {}", path.string(), parent.string()));
}

void check_replaceable(const fs::path& path, std::string_view mark) {
  std::error_code none;
  if (!fs::exists(fs::symlink_status(path, none))) return;
  if (fs::is_directory(path, none))
    throw UserError(fmt::format("{} is a folder, expected a file", path.string()));
  if (fs::is_regular_file(path, none)) {
    constexpr std::size_t kBeginning = 1 << 16;
    std::string beginning(kBeginning, '\0');
    std::ifstream in(path, std::ios::binary);
    in.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
    beginning.resize(static_cast<std::size_t>(in.gcount()));
    if (fs::is_empty(path, none) || beginning.find(mark) != std::string::npos) return;
  }
  throw UserError(fmt::format("{} exists; choose another path, or remove it", path.string()));
}

SharedFile::SharedFile(fs::path path, std::uint64_t size) : path_(std::move(path)) {
  open(O_CREAT | O_EXCL);
  if (ftruncate(descriptor_, static_cast<off_t>(size)) != 0) {
    const int error = errno;
    close(descriptor_);
    errno = error;
    fail("writing");
  }
}

SharedFile::SharedFile(fs::path path) : path_(std::move(path)) { open(0); }

void SharedFile::open(int flags) {
  descriptor_ = open_to_write(path_, O_WRONLY | flags, Owner::anyone);
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
    count_progress();
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void SharedFile::finish() {
  if (!sync_to_disk(descriptor_)) fail("writing");
  if (!is_closed(std::exchange(descriptor_, -1))) fail("closing");
}

void SharedFile::fail(const char* doing) const {
  throw UserError(fmt::format("{} {} failed: {}", doing, path_.string(), std::strerror(errno)));
}

bool sync_to_disk(int descriptor) {
  int result = 0;
  do result = ::fsync(descriptor);
  while (result != 0 && errno == EINTR);
  return result == 0 || is_unsupported(errno);
}

void sync_folder(const fs::path& folder) {
  const fs::path place = folder.empty() ? "." : folder;
  const int descriptor = ::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Nothing can be synced on a file system that cannot open folders, or if the folder is writable but not
  // readable.
  if (descriptor < 0 && (is_unsupported(errno) || errno == EACCES || errno == EPERM)) return;
  const bool failed = descriptor < 0 || !sync_to_disk(descriptor);
  const int reason = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (failed)
    throw UserError(fmt::format("writing the folder {} failed: {}", place.string(), std::strerror(reason)));
}

void make_own_folder(const fs::path& folder) {
  const auto fail = [&](const std::string& why) {
    throw UserError(fmt::format("cannot use the folder {}: {}; choose another with local_dirs=[DIR]",
                                folder.string(), why));
  };
  std::error_code failed;
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path(), failed);
  if (failed) fail(failed.message());
  constexpr mode_t kOthersWrite = 022;
  const bool made = ::mkdir(folder.c_str(), 0777 & ~kOthersWrite) == 0;
  if (!made && errno != EEXIST) fail(std::strerror(errno));
  struct stat found {};
  if (::stat(folder.c_str(), &found) != 0) fail(std::strerror(errno));
  if (!S_ISDIR(found.st_mode)) fail("it is not a folder");
  if (found.st_uid != ::geteuid())
    fail(made ? "files created on this file system belong to another user" : "it belongs to another user");
  if ((found.st_mode & kOthersWrite) != 0 &&
      ::chmod(folder.c_str(), found.st_mode & 07777 & ~kOthersWrite) != 0)
    fail(std::strerror(errno));
}

void mark_used(const fs::path& path) {
  const timespec times[] = {{0, UTIME_NOW}, {0, UTIME_OMIT}};
  ::utimensat(AT_FDCWD, path.c_str(), times, 0);  // a read-only cache keeps the old time
}

bool is_own(const fs::path& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && found.st_uid == ::geteuid();
}

}  // namespace dpo
