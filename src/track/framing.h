// Reads and writes the framing of records in the files of TensorBoard.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <string_view>

namespace dpo::track {

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

}  // namespace dpo::track
