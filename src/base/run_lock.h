#pragma once

#include <filesystem>

namespace dpo {

// A lock held while a process writes a run; released on any exit. A UserError if another process holds it.
class RunLock {
 public:
  static constexpr const char* kName = ".lock";  // a file that stays

  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace dpo
