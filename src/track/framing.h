// Reads and writes the framing of records in the files of the trackers.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <string_view>

namespace dpo::track {

std::uint32_t crc32(std::string_view bytes);   // as in zlib and PNG
std::uint32_t crc32c(std::string_view bytes);  // Castagnoli

// Returns a record of a TFRecord file, which TensorBoard reads: length, data, and a masked CRC-32C of each.
std::string tf_record(std::string_view data);

// Reads the records of a TFRecord file, which may be larger than the memory.
class TfReader {
 public:
  explicit TfReader(std::istream& file) : file_(file) {}

  // Returns false at the end, and at the first truncated or damaged record.
  bool next(std::string& record);

 private:
  std::istream& file_;
};

// W&B's files have a header of 7 bytes, then LevelDB's log format with the CRC-32 of zlib. Records are split
// into chunks that do not cross blocks of 32 KiB, so a record's bytes depend on its offset in the file.
std::string wandb_header();
std::string wandb_record(std::string_view data, std::uint64_t offset);

class WandbReader {
 public:
  explicit WandbReader(std::istream& file);

  // Returns false at the end, at the first truncated or damaged record, and if the file has another header.
  bool next(std::string& record);

  // Returns the offset at which the last record ended.
  std::uint64_t end() const { return end_; }

 private:
  std::istream& file_;
  std::uint64_t at_ = 0, end_ = 0;
  std::string typed_;  // type and data of a chunk
};

}  // namespace dpo::track
