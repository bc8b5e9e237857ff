#include "commands/cache_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/utf8.h"
#include "checkpoint/formats/safetensors.h"

namespace dpo::commands {
namespace {

namespace fs = std::filesystem;
using Kind = CacheFile::Kind;

constexpr std::string_view kTokens = ".tokens", kScores = ".safetensors", kTemporary = ".tmp";
constexpr const char* kUnreadable = "damaged, or written by an earlier version";

// Returns true for a name of 32 hexadecimal digits and this extension, as in the caches of runs.
bool is_cache_name(std::string_view name, std::string_view extension) {
  constexpr std::size_t kDigits = 32;
  return name.size() == kDigits + extension.size() && name.ends_with(extension) &&
         name.find_first_not_of("0123456789abcdef") == kDigits;
}

// Returns the final name of a temporary file (NAME.XXXXXX.tmp), or "" if it is not one.
std::string_view target_of(std::string_view name) {
  constexpr std::size_t kRandom = 7;  // including the dot
  if (!name.ends_with(kTemporary) || name.size() < kTemporary.size() + kRandom) return {};
  return name.substr(0, name.size() - kTemporary.size() - kRandom);
}

std::optional<Kind> kind_of(const std::string& name, std::string_view extension) {
  if (is_cache_name(name, extension)) return extension == kTokens ? Kind::tokens : Kind::scores;
  if (is_cache_name(target_of(name), extension)) return Kind::unfinished;
  return std::nullopt;
}

// Returns the second line of a token file; see data::TokenFile.
std::string about_tokens(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string first, second;
  std::getline(in, first);
  std::getline(in, second);
  return first.starts_with("dpo tokens ") && !second.empty() ? second : kUnreadable;
}

// Returns the tensor `about` of a file of reference scores; see train::ScoreTable.
std::string about_scores(const fs::path& path) {
  try {
    const checkpoint::SafetensorsFile file(path);
    for (const checkpoint::Entry& entry : file.header().entries)
      if (entry.name == "about") {
        const auto bytes = file.bytes_of(entry);
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
      }
  } catch (const UserError&) {
  }
  return kUnreadable;
}

std::string about(const fs::path& path, Kind kind) {
  if (kind == Kind::unfinished) return "left by a process that was killed";
  std::string text = replace_invalid_utf8(kind == Kind::tokens ? about_tokens(path) : about_scores(path));
  std::ranges::replace_if(
      text, [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  return text;
}

// Describes a file and restores its last-use time, because reading it for the list does not count as use.
std::string about_unused(const fs::path& path, Kind kind, const struct stat& found) {
  std::string text = about(path, kind);
  const timespec times[] = {found.st_atim, {0, UTIME_OMIT}};
  ::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW);
  return text;
}

void add_files(const fs::path& folder, std::string_view extension, std::vector<CacheFile>& all) {
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    const auto kind = kind_of(entry.path().filename().string(), extension);
    struct stat found {};
    if (!kind || ::lstat(entry.path().c_str(), &found) != 0 || !S_ISREG(found.st_mode) ||
        found.st_uid != ::geteuid())
      continue;
    all.push_back({entry.path(), *kind, about_unused(entry.path(), *kind, found), found.st_size,
                   found.st_mtim.tv_sec, std::max(found.st_atim.tv_sec, found.st_mtim.tv_sec)});
  }
}

}  // namespace

std::string name_of(Kind kind) {
  switch (kind) {
    case Kind::tokens: return "tokens";
    case Kind::scores: return "reference scores";
    case Kind::unfinished: break;
  }
  return "unfinished";
}

std::vector<CacheFile> cache_files_in(const fs::path& folder) {
  std::vector<CacheFile> all;
  add_files(folder / "tokens", kTokens, all);
  add_files(folder / "references", kScores, all);
  std::ranges::stable_sort(all, std::greater<>(), &CacheFile::used);
  return all;
}

std::string remove_cache_file(const CacheFile& file) {
  const std::string name = file.path.filename().string();
  const fs::path made = file.kind == Kind::unfinished ? file.path.parent_path() / target_of(name) : file.path;
  const std::optional<FileLock> writing = FileLock::try_exclusive(lock_of(made));
  if (!writing) return "a run is writing it";
  const std::optional<FileLock> reading = FileLock::try_exclusive(file.path);
  if (!reading) return "a run is using it";
  std::error_code failed;
  if (!fs::remove(file.path, failed) && failed) return failed.message();
  fs::remove(lock_of(made), failed);
  return "";
}

std::int64_t size_of_folder(const fs::path& folder) {
  std::int64_t bytes = 0;
  std::error_code none;
  for (auto at =
           fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, none);
       at != fs::recursive_directory_iterator(); at.increment(none))
    if (at->is_regular_file(none) && !at->is_symlink(none))
      bytes += static_cast<std::int64_t>(at->file_size(none));
  return bytes;
}

}  // namespace dpo::commands
