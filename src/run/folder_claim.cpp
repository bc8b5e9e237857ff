#include "run/folder_claim.h"

#include <unistd.h>

#include <cstdio>
#include <ranges>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/output_files.h"
#include "base/user_path.h"

namespace dpo::run {
namespace {

namespace fs = std::filesystem;

// Removes the folders that are empty.
void remove_empty(const std::vector<fs::path>& made) {
  for (const fs::path& folder : std::views::reverse(made)) ::rmdir(folder.c_str());
}

// Returns whether this process created the folder.
bool create(const fs::path& folder) {
  std::error_code failed;
  const bool made = fs::create_directory(folder, failed);
  if (failed) throw UserError(fmt::format("cannot create {}: {}", folder.string(), failed.message()));
  return made;
}

// Creates a folder and its missing parents. Returns the created folders, each after its parent.
std::vector<fs::path> create_with_parents(const fs::path& folder) {
  std::vector<fs::path> missing, made;
  std::error_code none;
  for (fs::path at = folder; !at.empty() && !fs::exists(at, none); at = at.parent_path())
    missing.push_back(at);
  try {
    for (const fs::path& each : std::views::reverse(missing))
      if (create(each)) made.push_back(each);
  } catch (...) {
    remove_empty(made);
    throw;
  }
  return made;
}

}  // namespace

FolderClaim::FolderClaim(fs::path folder, std::vector<fs::path> made)
    : path_(std::move(folder)), made_(std::move(made)) {
  try {
    lock_.emplace(path_);
  } catch (...) {
    remove_empty(made_);
    throw;
  }
  made_lock_ = lock_->made_file();
}

FolderClaim::FolderClaim(fs::path folder)
    : FolderClaim(without_slash(folder), create_with_parents(without_slash(folder))) {}

FolderClaim FolderClaim::numbered(const fs::path& folder) {
  std::vector<fs::path> made = create_with_parents(folder.parent_path());
  fs::path free = folder;
  for (int i = 2; !create(free); ++i) free = fmt::format("{}-{}", folder.string(), i);
  made.push_back(free);
  return {free, std::move(made)};
}

FolderClaim::FolderClaim(FolderClaim&& other) noexcept
    : path_(std::move(other.path_)),
      made_(std::exchange(other.made_, {})),
      made_lock_(std::exchange(other.made_lock_, false)),
      lock_(std::move(other.lock_)) {
  other.lock_.reset();
}

// Removes the lock file first, while it is locked, so that a process that already opened it finds it gone.
FolderClaim::~FolderClaim() {
  if (made_lock_) ::unlink((path_ / RunLock::kName).c_str());
  remove_empty(made_);
}

void FolderClaim::keep() {
  made_.clear();
  made_lock_ = false;
}

fs::path FolderClaim::replace() {
  const fs::path place = fs::canonical(path_);
  const fs::path aside = move_aside(place);
  try {
    FolderClaim fresh(place);
    fresh.keep();
    keep();
    lock_.reset();
    lock_.emplace(std::move(*fresh.lock_));
  } catch (...) {
    std::rename(aside.c_str(), place.c_str());
    throw;
  }
  return aside;
}

}  // namespace dpo::run
