#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "hub/content_hash.h"

namespace dpo::hub {

// A download on disk: always the beginning of the content, so that it can be continued whatever ended it.
// Failures (a full disk) are UserErrors.
class PartialFile {
 public:
  // Opens the file, or creates it. Its bytes are added to the hash.
  PartialFile(std::filesystem::path path, const std::string& expected_hash, std::int64_t whole_size);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  std::int64_t size() const { return size_; }
  void append(std::string_view bytes);
  void restart();                                   // makes it empty
  bool matches() { return hash_.matches(); }        // once, when it is whole
  void rename_to(const std::filesystem::path& to);  // syncs it to disk first

 private:
  [[noreturn]] void fail(const char* doing) const;

  std::filesystem::path path_;
  ContentHash hash_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

}  // namespace dpo::hub
