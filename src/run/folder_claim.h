#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/run_lock.h"

namespace dpo::run {

// Holds the lock on a run's folder, from before the data is read until the run ends. If the run never begins,
// the destructor removes everything that the claim created.
class FolderClaim {
 public:
  // Creates the folder and its parents if missing. Throws a UserError if another process has locked it.
  explicit FolderClaim(std::filesystem::path folder);
  // Creates the first of FOLDER, FOLDER-2, FOLDER-3, ... that does not exist.
  static FolderClaim numbered(const std::filesystem::path& folder);

  ~FolderClaim();
  FolderClaim(FolderClaim&& other) noexcept;
  FolderClaim& operator=(FolderClaim&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const std::string& warning() const { return lock_->warning(); }  // see RunLock

  // Called when the run begins. The destructor removes nothing after that.
  void keep();

  // Renames the folder and claims an empty one in its place. Returns the new name of the old folder. If the
  // path is a symbolic link, the link stays and its target is renamed.
  std::filesystem::path replace();

 private:
  FolderClaim(std::filesystem::path folder, std::vector<std::filesystem::path> made);

  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  // created folders, each after its parent
  bool made_lock_ = false;
  std::optional<RunLock> lock_;
};

}  // namespace dpo::run
