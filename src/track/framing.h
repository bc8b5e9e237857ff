// How records follow each other in the files of the trackers.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <string_view>

namespace dpo::track {

std::uint32_t crc32(std::string_view bytes);   // of zlib and PNG
std::uint32_t crc32c(std::string_view bytes);  // Castagnoli's

// A record of TFRecord files, which TensorBoard reads: length, data, and a masked CRC-32C of each.
std::string tf_record(std::string_view data);

// Reads the records of such a file, which may be larger than the memory.
class TfReader {
 public:
  explicit TfReader(std::istream& file) : file_(file) {}

  // False at the end, and at the first record that is cut off or damaged.
  bool next(std::string& record);

 private:
  std::istream& file_;
};

// W&B's files: a header of 7 bytes, then the log format of LevelDB with the CRC-32 of zlib. Records are split
// into chunks that do not cross blocks of 32 KiB, so a record's bytes depend on where in the file it begins.
std::string wandb_header();
std::string wandb_record(std::string_view data, std::uint64_t offset);

class WandbReader {
 public:
  explicit WandbReader(std::istream& file);

  // False at the end, at the first record that is cut off or damaged, and if the file has another header.
  bool next(std::string& record);

  // Where the last record ended.
  std::uint64_t end() const { return end_; }

 private:
  std::istream& file_;
  std::uint64_t at_ = 0, end_ = 0;
  std::string typed_;  // type and data of a chunk
};

}  // namespace dpo::track
