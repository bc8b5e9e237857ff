#pragma once

#include <filesystem>
#include <string>
#include <utility>

namespace dpo {

// A lock that a process holds while it writes a run, released on any exit. Throws a UserError if another
// process holds it.
class RunLock {
 public:
  static constexpr const char* kName = ".lock";  // the file remains after the run

  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(RunLock&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)),
        made_file_(other.made_file_),
        warning_(std::move(other.warning_)) {}
  RunLock& operator=(RunLock&&) = delete;

  bool made_file() const { return made_file_; }  // the lock file did not exist before

  // Returns a warning for the user if no lock is held because the file system has none, otherwise "".
  const std::string& warning() const { return warning_; }

 private:
  int descriptor_ = -1;
  bool made_file_ = false;
  std::string warning_;
};

}  // namespace dpo
