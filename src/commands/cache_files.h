#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

namespace dpo::commands {

// A file in one of the cache folders of LOCAL_DIR/USER whose name shows that dpo wrote it.
struct CacheFile {
  enum class Kind { tokens, scores, unfinished };  // unfinished: left by a killed process

  std::filesystem::path path;
  Kind kind{};
  std::string about;  // its purpose, read from the file
  std::int64_t bytes = 0;
  std::time_t written = 0, used = 0;  // used: last use by a run, or written
};

std::string name_of(CacheFile::Kind kind);

// Returns the files of `folder`/tokens and `folder`/references that this user owns, the most recently used
// first.
std::vector<CacheFile> cache_files_in(const std::filesystem::path& folder);

// Removes a file and its lock. Returns "", or the reason why it was kept: a process uses it, or the system
// refuses.
std::string remove_cache_file(const CacheFile& file);

// Returns the bytes of all files below a folder, without following links.
std::int64_t size_of_folder(const std::filesystem::path& folder);

}  // namespace dpo::commands
