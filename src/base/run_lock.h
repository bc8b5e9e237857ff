#pragma once

#include <filesystem>
#include <string>
#include <utility>

namespace dpo {

// A lock held while a process writes a run; released on any exit. A UserError if another process holds it.
class RunLock {
 public:
  static constexpr const char* kName = ".lock";  // a file that stays

  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(RunLock&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)),
        made_file_(other.made_file_),
        warning_(std::move(other.warning_)) {}
  RunLock& operator=(RunLock&&) = delete;

  bool made_file() const { return made_file_; }  // there was none before

  // A warning for the user if the file system has no locks, so that none is held; otherwise empty.
  const std::string& warning() const { return warning_; }

 private:
  int descriptor_ = -1;
  bool made_file_ = false;
  std::string warning_;
};

}  // namespace dpo
