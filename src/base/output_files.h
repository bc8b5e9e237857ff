// Files and folders that are written so that a crash or a full disk never leaves a partial one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace dpo {

// A file that is complete or absent: bytes go into a temporary file next to it, which commit() syncs to disk
// and renames. Without commit() no file is left. Failures (a full disk) are UserErrors that name the path.
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

// Writes a text as such a file.
void write_file(const std::filesystem::path& path, std::string_view text);

// A folder that is complete or absent: files go into a temporary folder next to it, which commit() syncs to
// disk and renames; the files in it are on disk already (AtomicFile). Without commit() no folder is left.
// Failures are UserErrors that name the path.
class AtomicFolder {
 public:
  // `path` may exist as an empty folder.
  explicit AtomicFolder(std::filesystem::path path);
  // With a temporary folder whose name other processes know; it must not exist yet.
  AtomicFolder(std::filesystem::path path, std::filesystem::path temporary);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const std::filesystem::path& temporary() const { return temporary_; }  // write here
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
};

// Renames `path` to PATH.old-N, with the first N that is free, and returns the new path.
std::filesystem::path move_aside(const std::filesystem::path& path);

// A UserError if `path` exists and is not an empty folder, or if its parent folder does not exist.
void check_absent(const std::filesystem::path& path);

// A UserError if `path` exists and is neither an empty file nor one that this program wrote as the same kind:
// such files have `mark` in their first 64 KiB.
void check_replaceable(const std::filesystem::path& path, std::string_view mark);

// A file that several processes write at once, each at its own offsets. Failures (a full disk) are
// UserErrors that name the path.
class SharedFile {
 public:
  // Creates a file of this size, which the others can then open.
  SharedFile(std::filesystem::path path, std::uint64_t size);
  // Opens an existing file.
  explicit SharedFile(std::filesystem::path path);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  void write(std::uint64_t offset, std::string_view text) { write(offset, std::as_bytes(std::span(text))); }
  // Syncs to disk what was written.
  void finish();

 private:
  void open(int flags);
  [[noreturn]] void fail(const char* doing) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
};

// Syncs an open file or folder to disk. Returns false, with errno, if the disk fails. A file system that
// offers no syncing is no failure.
bool sync_to_disk(int descriptor);

// Syncs to disk what was created, renamed or removed in a folder. A UserError if the disk fails.
void sync_folder(const std::filesystem::path& folder);

// Creates a folder, with its parents, that no other user may write to. A folder of another user is a
// UserError: its owner decides what is in it.
void make_own_folder(const std::filesystem::path& folder);

// Sets the last-use time of a cached file to now. Reading it does not do so on every file system.
void mark_used(const std::filesystem::path& path);

// Whether a path belongs to this user; false if it does not exist.
bool is_own(const std::filesystem::path& path);

}  // namespace dpo
