#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "hub/content_hash.h"

namespace dpo::hub {

// What is left of an interrupted download of `blob`, next to it, and no process writes any more.
// Files of other users and links are not used.
std::optional<std::filesystem::path> find_partial(const std::filesystem::path& blob);

// A download on disk: always the beginning of the content, so that it can be continued whatever ended it.
// No other process writes this file, even where locks do not work, and it is never made shorter: another
// process may have opened it under an earlier name. Failures (a full disk) are UserErrors.
class PartialFile {
 public:
  // BLOB.HOST-PID-RANDOM.incomplete: new, or an interrupted download's, which it renames. Its bytes are added
  // to the hash.
  PartialFile(std::filesystem::path blob, const std::string& expected_hash, std::int64_t whole_size);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  std::int64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }
  void append(std::string_view bytes);
  void restart();                             // with an empty file
  bool matches() { return hash_.matches(); }  // once, when it is whole
  void finish();                              // syncs it to disk and renames it to the blob
  void remove();

 private:
  void open_leftover();
  void create();
  void read();
  [[noreturn]] void fail(const char* doing) const;

  std::filesystem::path blob_, path_;
  ContentHash hash_;
  std::int64_t whole_size_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

}  // namespace dpo::hub
