#include "track/framing.h"

#include <algorithm>
#include <array>

namespace dpo::track {
namespace {

// tables[k][b] is the checksum of the byte b with k zeros after it. Eight bytes are looked up at once for
// speed, because the files of a long run are gigabytes.
using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr CrcTables make_tables(std::uint32_t reversed_polynomial) {
  CrcTables tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? reversed_polynomial : 0);
    tables[0][i] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k)
    for (std::size_t i = 0; i < 256; ++i)
      tables[k][i] = tables[k - 1][i] >> 8 ^ tables[0][tables[k - 1][i] & 0xFF];
  return tables;
}

std::uint32_t crc_of(const CrcTables& tables, std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      const auto byte = static_cast<unsigned char>(bytes[i]);
      next ^= tables[7 - i][i < 4 ? (byte ^ crc >> (8 * i)) & 0xFF : byte];
    }
    crc = next;
  }
  for (const char c : bytes) crc = crc >> 8 ^ tables[0][(crc ^ static_cast<unsigned char>(c)) & 0xFF];
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

// `bytes` must have at least `size` bytes.
std::uint64_t read_little_endian(std::string_view bytes, std::size_t size) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i)
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return value;
}

constexpr std::size_t kBlock = 32 * 1024;
constexpr std::size_t kChunkHeader = 7;  // bytes: CRC-32 of type and data, length, type
enum ChunkType { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

std::string chunk(ChunkType type, std::string_view data) {
  std::string typed(1, static_cast<char>(type));
  typed += data;
  return little_endian(crc32(typed), 4) + little_endian(data.size(), 2) + typed;
}

// Fills `bytes`. Returns false if the file ends earlier.
bool read_exactly(std::istream& file, std::string& bytes, std::size_t size) {
  // Reads in pieces, because a damaged length may be larger than the memory.
  constexpr std::size_t kPiece = 1u << 20;
  bytes.clear();
  while (bytes.size() < size) {
    const std::size_t begin = bytes.size(), more = std::min(kPiece, size - begin);
    bytes.resize(begin + more);
    if (!file.read(bytes.data() + begin, static_cast<std::streamsize>(more))) return false;
  }
  return true;
}

}  // namespace

std::uint32_t crc32(std::string_view bytes) {
  static constexpr CrcTables kTables = make_tables(0xEDB88320);
  return crc_of(kTables, bytes);
}

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr CrcTables kTables = make_tables(0x82F63B78);
  return crc_of(kTables, bytes);
}

std::string tf_record(std::string_view data) {
  const std::string length = little_endian(data.size(), 8);
  std::string record = length + little_endian(masked_crc32c(length), 4);
  record += data;
  return record + little_endian(masked_crc32c(data), 4);
}

bool TfReader::next(std::string& record) {
  std::string frame;
  if (!read_exactly(file_, frame, 8 + 4)) return false;
  const std::string_view length = std::string_view(frame).substr(0, 8);
  if (read_little_endian(std::string_view(frame).substr(8), 4) != masked_crc32c(length)) return false;
  return read_exactly(file_, record, read_little_endian(length, 8)) && read_exactly(file_, frame, 4) &&
         read_little_endian(frame, 4) == masked_crc32c(record);
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

WandbReader::WandbReader(std::istream& file) : file_(file) {
  std::string header;
  if (!read_exactly(file_, header, wandb_header().size()) || header != wandb_header())
    file_.setstate(std::ios::failbit);
  at_ = header.size();
}

bool WandbReader::next(std::string& record) {
  std::string frame;
  while (true) {
    if (const std::size_t room = kBlock - at_ % kBlock; room < kChunkHeader) {
      file_.ignore(static_cast<std::streamsize>(room));
      at_ += room;
    }
    if (!read_exactly(file_, frame, kChunkHeader)) return false;
    const std::size_t size = read_little_endian(std::string_view(frame).substr(4), 2);
    if (at_ % kBlock + kChunkHeader + size > kBlock || !read_exactly(file_, typed_, size)) return false;
    typed_.insert(typed_.begin(), frame.back());
    if (crc32(typed_) != read_little_endian(frame, 4)) return false;
    const int type = typed_.front();
    if (type == kFull || type == kFirst) record.clear();
    record.append(typed_, 1);
    at_ += kChunkHeader + size;
    if (type != kFull && type != kLast) continue;
    end_ = at_;
    return true;
  }
}

}  // namespace dpo::track
