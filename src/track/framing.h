// How records follow each other in the files of the trackers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dpo::track {

std::uint32_t crc32(std::string_view bytes);   // of zlib and PNG
std::uint32_t crc32c(std::string_view bytes);  // Castagnoli's

// A record of TFRecord files, which TensorBoard reads: length, data, and a masked CRC-32C of each.
std::string tf_record(std::string_view data);
// The records of such a file, up to the first that is cut off or damaged. They point into `file`.
std::vector<std::string_view> tf_records(std::string_view file);

// W&B's files: a header of 7 bytes, then the log format of LevelDB with the CRC-32 of zlib. Records are split
// into chunks that do not cross blocks of 32 KiB, so a record's bytes depend on where in the file it begins.
std::string wandb_header();
std::string wandb_record(std::string_view data, std::uint64_t offset);
// The records of such a file, up to the first that is cut off or damaged; none if it has another header.
std::vector<std::string> wandb_records(std::string_view file);

}  // namespace dpo::track
