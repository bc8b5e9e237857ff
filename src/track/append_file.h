#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace dpo::track {

// A file that grows by whole records. What cannot be written now, on a full disk, is kept in memory and tried
// again with the next record.
class AppendFile {
 public:
  // `contents` replace the file, if there is one, at once or not at all.
  AppendFile(std::filesystem::path path, std::string contents);
  // Continues a file after its first `size` bytes; what follows them is cut off.
  AppendFile(std::filesystem::path path, std::uint64_t size);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Whether all records so far are in the file.
  bool append(std::string_view record);

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return written_ + unwritten_.size(); }  // once all is written
  std::uint64_t written() const { return written_; }                   // whole records
  bool is_written() const { return descriptor_ >= 0 && unwritten_.empty(); }

 private:
  void try_to_open();
  void create();
  void open_existing();
  void write_on();

  std::filesystem::path path_;
  std::string unwritten_;
  std::uint64_t written_ = 0;
  bool is_new_ = true;
  int descriptor_ = -1;  // until the contents are written
};

}  // namespace dpo::track
