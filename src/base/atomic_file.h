#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace dpo {

// A file that is complete or absent: what is written goes into a temporary file beside it, and commit() puts
// that on disk and renames it. Without commit() nothing is left. Failures (a full disk) are UserErrors that
// name the path.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void commit();

 private:
  [[noreturn]] void fail(const char* doing) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

}  // namespace dpo
