#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace dpo::track {

// A file that grows by whole records. Records that cannot be written, for example on a full disk, stay in
// memory and are tried again with the next record.
class AppendFile {
 public:
  // Replaces the file, if there is one, by `contents` atomically.
  AppendFile(std::filesystem::path path, std::string contents);
  // Continues a file after its first `size` bytes and cuts off the rest.
  AppendFile(std::filesystem::path path, std::uint64_t size);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Returns true if all records so far are in the file.
  bool append(std::string_view record);

  bool is_written() const { return descriptor_ >= 0 && unwritten_.empty(); }

 private:
  void try_to_open();
  void create();
  void open_existing();
  void write_on();

  std::filesystem::path path_;
  std::string unwritten_;
  std::uint64_t written_ = 0;  // bytes of whole records
  bool is_new_ = true;
  int descriptor_ = -1;  // -1 until the contents are written
};

}  // namespace dpo::track
