#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

namespace dpo::commands {

// A file in one of the cache folders of LOCAL_DIR/USER: its name says that dpo wrote it.
struct CacheFile {
  enum class Kind { tokens, scores, unfinished };  // unfinished: what a process that was killed left

  std::filesystem::path path;
  Kind kind{};
  std::string about;  // what it is for, as the file tells it
  std::int64_t bytes = 0;
  std::time_t written = 0, used = 0;  // used: by a run, or written
};

std::string name_of(CacheFile::Kind kind);

// The files of `folder`/tokens and `folder`/references that belong to this user, the one used last first.
std::vector<CacheFile> cache_files_in(const std::filesystem::path& folder);

// Removes a file and its lock. Returns "", or why it was kept: a process uses it, or the system refuses.
std::string remove_cache_file(const CacheFile& file);

// Bytes of all files below a folder; links are not followed.
std::int64_t size_of_folder(const std::filesystem::path& folder);

}  // namespace dpo::commands
