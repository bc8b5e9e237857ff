#include "base/permissions.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"

namespace dpo {

mode_t permission_mask() {
  static const mode_t mask = [] {
    const mode_t found = umask(0);
    umask(found);
    return found;
  }();
  return mask;
}

void make_own_folder(const std::filesystem::path& folder) {
  const auto fail = [&](const std::string& why) {
    throw UserError(fmt::format("cannot use the folder {}: {}; choose another with local_dirs=[DIR]",
                                folder.string(), why));
  };
  std::error_code failed;
  if (folder.has_parent_path()) std::filesystem::create_directories(folder.parent_path(), failed);
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

bool is_own(const std::filesystem::path& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && found.st_uid == ::geteuid();
}

}  // namespace dpo
