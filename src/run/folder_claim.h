#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/run_lock.h"

namespace dpo::run {

// The folder of a run, locked from before its data is read until the run ends. If the run never begins, the
// destructor removes what the claim has made.
class FolderClaim {
 public:
  // Creates the folder, with its parents, if it is missing. A UserError if another process has locked it.
  explicit FolderClaim(std::filesystem::path folder);
  // Creates the first of FOLDER, FOLDER-2, FOLDER-3, ... that does not exist.
  static FolderClaim numbered(const std::filesystem::path& folder);

  ~FolderClaim();
  FolderClaim(FolderClaim&& other) noexcept;
  FolderClaim& operator=(FolderClaim&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const std::string& warning() const { return lock_->warning(); }  // see RunLock

  // The run begins: from now on everything stays.
  void keep();

  // Renames the folder, and claims an empty one in its place. Returns the new name of the old one. If the
  // path is a link, it stays, and the folder that it leads to is renamed.
  std::filesystem::path replace();

 private:
  FolderClaim(std::filesystem::path folder, std::vector<std::filesystem::path> made);

  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  // folders, each after its parent
  bool made_lock_ = false;
  std::optional<RunLock> lock_;
};

}  // namespace dpo::run
