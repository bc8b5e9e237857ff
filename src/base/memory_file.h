#pragma once

#include <string_view>

namespace dpo {

// An anonymous file in memory with a text, from its beginning. It gives another process a long or private
// input: other users do not see it, and unlike a pipe it never fills up.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view text);  // throws UserError if it cannot be written
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace dpo
