#include "track/framing.h"

#include <algorithm>
#include <array>
#include <optional>

namespace dpo::track {
namespace {

using CrcTable = std::array<std::uint32_t, 256>;

constexpr CrcTable make_table(std::uint32_t reversed_polynomial) {
  CrcTable table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? reversed_polynomial : 0);
    table[i] = crc;
  }
  return table;
}

std::uint32_t crc_of(const CrcTable& table, std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

std::string little_endian(std::uint64_t value, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

// `bytes` has at least `size`.
std::uint64_t read_little_endian(std::string_view bytes, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i)
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

constexpr std::size_t kBlock = 32 * 1024;
constexpr std::size_t kChunkHeader = 7;  // CRC-32 of type and data, length, type
enum ChunkType { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

std::string chunk(ChunkType type, std::string_view data) {
  std::string typed(1, static_cast<char>(type));
  typed += data;
  return little_endian(crc32(typed), 4) + little_endian(data.size(), 2) + typed;
}

struct Chunk {
  int type = 0;
  std::string_view data;
};

// The chunk at the front of `rest`, which begins at `offset` of the file; nullopt if it is cut off or
// damaged.
std::optional<Chunk> read_chunk(std::string_view rest, std::size_t offset) {
  if (rest.size() < kChunkHeader) return std::nullopt;
  const std::size_t size = read_little_endian(rest.substr(4), 2);
  if (rest.size() < kChunkHeader + size || offset % kBlock + kChunkHeader + size > kBlock)
    return std::nullopt;
  if (crc32(rest.substr(6, 1 + size)) != read_little_endian(rest, 4)) return std::nullopt;
  return Chunk{rest[6], rest.substr(kChunkHeader, size)};
}

}  // namespace

std::uint32_t crc32(std::string_view bytes) {
  static constexpr CrcTable kTable = make_table(0xEDB88320);
  return crc_of(kTable, bytes);
}

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr CrcTable kTable = make_table(0x82F63B78);
  return crc_of(kTable, bytes);
}

std::string tf_record(std::string_view data) {
  const std::string length = little_endian(data.size(), 8);
  std::string record = length + little_endian(masked_crc32c(length), 4);
  record += data;
  return record + little_endian(masked_crc32c(data), 4);
}

std::vector<std::string_view> tf_records(std::string_view file) {
  constexpr std::size_t kAround = 8 + 4 + 4;
  std::vector<std::string_view> records;
  while (file.size() >= kAround) {
    const std::uint64_t size = read_little_endian(file, 8);
    if (read_little_endian(file.substr(8), 4) != masked_crc32c(file.substr(0, 8)) ||
        size > file.size() - kAround)
      break;
    const std::string_view data = file.substr(12, size);
    if (read_little_endian(file.substr(12 + size), 4) != masked_crc32c(data)) break;
    records.push_back(data);
    file.remove_prefix(kAround + size);
  }
  return records;
}

std::string wandb_header() { return ":W&B" + little_endian(0xBEE1, 2) + little_endian(0, 1); }

std::string wandb_record(std::string_view data, std::uint64_t offset) {
  std::string record;
  bool first = true, last = false;
  while (!last) {
    std::size_t room = kBlock - (offset + record.size()) % kBlock;
    if (room < kChunkHeader) {
      record.append(room, '\0');
      room = kBlock;
    }
    const std::string_view part = data.substr(0, room - kChunkHeader);
    data.remove_prefix(part.size());
    last = data.empty();
    record += chunk(first ? (last ? kFull : kFirst) : (last ? kLast : kMiddle), part);
    first = false;
  }
  return record;
}

std::vector<std::string> wandb_records(std::string_view file) {
  std::vector<std::string> records;
  std::size_t offset = wandb_header().size();
  if (!file.starts_with(wandb_header())) return records;
  std::string record;
  while (true) {
    if (const std::size_t room = kBlock - offset % kBlock; room < kChunkHeader) offset += room;
    const auto read = read_chunk(file.substr(std::min(offset, file.size())), offset);
    if (!read) return records;
    if (read->type == kFull || read->type == kFirst) record.clear();
    record += read->data;
    if (read->type == kFull || read->type == kLast) records.push_back(record);
    offset += kChunkHeader + read->data.size();
  }
}

}  // namespace dpo::track
