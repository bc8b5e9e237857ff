#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "hub/content_hash.h"

namespace dpo::hub {

// Returns an interrupted download of `blob`, next to it, that no process writes any more. Files of other
// users and links are not used.
std::optional<std::filesystem::path> find_partial(const std::filesystem::path& blob);

// A download on disk. It always holds the beginning of the content, so it can be continued however it ended.
// No other process writes this file, even where locks do not work. It is never truncated, because another
// process may have opened it under an earlier name. Failures (such as a full disk) throw UserError.
class PartialFile {
 public:
  // Creates BLOB.HOST-PID-RANDOM.incomplete, or renames an interrupted download to it and adds its bytes to
  // the hash.
  PartialFile(std::filesystem::path blob, const std::string& expected_hash, std::int64_t whole_size);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  std::int64_t size() const { return size_; }
  const std::filesystem::path& path() const { return path_; }
  void append(std::string_view bytes);
  void restart();                             // starts over with an empty file
  bool matches() { return hash_.matches(); }  // once, when the file is complete
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
