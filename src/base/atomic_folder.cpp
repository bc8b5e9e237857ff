#include "base/atomic_folder.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/files.h"
#include "base/permissions.h"

namespace dpo {
namespace {

namespace fs = std::filesystem;

// "runs/out/" names the same folder as "runs/out".
fs::path without_slash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

[[noreturn]] void fail(const char* doing, const fs::path& path) {
  throw UserError(fmt::format("{} the folder {} failed: {}", doing, path.string(), std::strerror(errno)));
}

}  // namespace

AtomicFolder::AtomicFolder(fs::path path) : path_(without_slash(path)) {
  // A name of its own, so that two processes that write one folder do not mix their files.
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

}  // namespace dpo
