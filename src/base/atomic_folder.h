#pragma once

#include <filesystem>

namespace dpo {

// A folder that is complete or absent: files are written into a temporary folder beside it, and commit()
// puts its names on disk and renames it; the files in it are on disk already (AtomicFile). Without commit()
// nothing is left. Failures are UserErrors that name the path.
class AtomicFolder {
 public:
  // `path` may be an empty folder already.
  explicit AtomicFolder(std::filesystem::path path);
  // With a temporary folder whose name other processes know; there may be none of that name yet.
  AtomicFolder(std::filesystem::path path, std::filesystem::path temporary);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const std::filesystem::path& temporary() const { return temporary_; }  // write here
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
};

// Renames what is at `path` to PATH.old-N, the first N that is free, and returns that.
std::filesystem::path move_aside(const std::filesystem::path& path);

// A UserError if something is at `path` (an empty folder is nothing), or if there is no folder to put it
// into.
void check_absent(const std::filesystem::path& path);

}  // namespace dpo
