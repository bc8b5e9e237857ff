#pragma once

#include <filesystem>
#include <optional>

namespace dpo {

// A lock on a file, held until this object is destroyed or the process ends. A file system without locks
// locks nothing: two processes may then do the same work, and the later file replaces an equal one.
class FileLock {
 public:
  enum class Kind { shared, exclusive };

  // Waits for the lock. An exclusive lock creates the file. If a shared lock finds no file, nothing is
  // locked.
  FileLock(const std::filesystem::path& file, Kind kind);
  // Tries to take an exclusive lock without waiting or creating the file. Returns nullopt if another process
  // holds it.
  static std::optional<FileLock> try_exclusive(const std::filesystem::path& file);

  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

// Calls flock(2), and calls it again after signals. Returns 0 or errno: EWOULDBLOCK means that another
// process holds the lock, any other value that the file system has no locks.
int lock_file(int descriptor, int operation);

// Returns true if the path still names the open file. If the file was removed or replaced before it was
// locked, other processes lock the new one.
bool is_still_at(int descriptor, const std::filesystem::path& path);

// Returns PATH.lock, the file that processes lock while they write `path`.
std::filesystem::path lock_of(const std::filesystem::path& path);

}  // namespace dpo
