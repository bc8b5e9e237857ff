#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace dpo {

// A file that several processes write at once, each at places of its own. Failures (a full disk) are
// UserErrors that name the path.
class SharedFile {
 public:
  // Makes a new file of this size, which the others can then open.
  SharedFile(std::filesystem::path path, std::uint64_t size);
  // Opens one that is there.
  explicit SharedFile(std::filesystem::path path);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  void write(std::uint64_t offset, std::string_view text) { write(offset, std::as_bytes(std::span(text))); }
  // Puts on disk what was written. Without it nothing is sure.
  void finish();

 private:
  void open(int flags);
  [[noreturn]] void fail(const char* doing) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace dpo
