// Writes files and folders so that a crash or a full disk never leaves a partial one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace dpo {

// A file that is complete or absent. Bytes go into a temporary file next to it, which commit() syncs to disk
// and renames. Without commit(), no file remains. Failures such as a full disk throw a UserError that names
// the path.
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

// Writes a text as an AtomicFile.
void write_file(const std::filesystem::path& path, std::string_view text);

// A folder that is complete or absent. Files go into a temporary folder next to it, which commit() syncs to
// disk and renames. The files in it must already be on disk (AtomicFile). Without commit(), no folder
// remains. Failures throw a UserError that names the path.
class AtomicFolder {
 public:
  // `path` may be an existing empty folder.
  explicit AtomicFolder(std::filesystem::path path);
  // Uses a temporary folder whose name other processes know. It must not exist yet.
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

// Renames `path` to PATH.old-N, with the first unused N, and returns the new path.
std::filesystem::path move_aside(const std::filesystem::path& path);

// Throws a UserError if `path` exists and is not an empty folder, or if its parent folder does not exist.
void check_absent(const std::filesystem::path& path);

// Throws a UserError if `path` exists, unless it is empty or this program wrote it as the same kind of file.
// Such files have `mark` in their first 64 KiB.
void check_replaceable(const std::filesystem::path& path, std::string_view mark);

// A file that several processes write simultaneously, each at different offsets. Failures such as a full disk
// throw a UserError that names the path.
class SharedFile {
 public:
  // Creates a file of this size, which other processes can then open.
  SharedFile(std::filesystem::path path, std::uint64_t size);
  // Opens an existing file.
  explicit SharedFile(std::filesystem::path path);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  void write(std::uint64_t offset, std::string_view text) { write(offset, std::as_bytes(std::span(text))); }
  // Syncs the written data to disk.
  void finish();

 private:
  void open(int flags);
  [[noreturn]] void fail(const char* doing) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
};

// Syncs an open file or folder to disk. Returns false, with errno set, if the disk fails. Returns true if the
// file system does not support syncing.
bool sync_to_disk(int descriptor);

// Syncs creations, renames and removals in a folder to disk. Throws a UserError if the disk fails.
void sync_folder(const std::filesystem::path& folder);

// Creates a folder, with its parents, that no other user may write to. Throws a UserError if another user
// owns the folder, because its owner decides what is in it.
void make_own_folder(const std::filesystem::path& folder);

// Sets the last-use time of a cached file to now, because some file systems do not update it on reads.
void mark_used(const std::filesystem::path& path);

// Returns true if this user owns an existing path.
bool is_own(const std::filesystem::path& path);

}  // namespace dpo
