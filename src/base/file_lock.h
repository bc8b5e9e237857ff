#pragma once

#include <filesystem>
#include <optional>

namespace dpo {

// A lock on a file, held until this is destroyed or the process ends. On a file system without locks nothing
// is locked: two processes may then do the same work, and the later file replaces an equal one.
class FileLock {
 public:
  enum class Kind { shared, exclusive };

  // Waits for the lock. An exclusive lock creates the file; if there is none to share, nothing is locked.
  FileLock(const std::filesystem::path& file, Kind kind);
  // Takes an exclusive lock without waiting. Returns nullopt if another process holds it. Creates no file.
  static std::optional<FileLock> try_exclusive(const std::filesystem::path& file);

  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

// Calls flock(2) again after signals. Returns 0, or errno: EWOULDBLOCK if another process holds the lock,
// anything else if the file system has no locks.
int lock_file(int descriptor, int operation);

// Returns whether the path still names the open file. If the file was removed or replaced before it was
// locked, others will lock the new one.
bool is_still_at(int descriptor, const std::filesystem::path& path);

// PATH.lock, the file that processes lock while they write `path`.
std::filesystem::path lock_of(const std::filesystem::path& path);

}  // namespace dpo
