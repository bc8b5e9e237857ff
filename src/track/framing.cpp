#include "track/framing.h"

#include <algorithm>
#include <array>

namespace dpo::track {
namespace {

// tables[k][b] is the checksum of the byte b with k zeros after it. Eight bytes are looked up at once for
// speed, because the files of a long run are gigabytes.
using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr CrcTables make_tables() {
  constexpr std::uint32_t kReversedPolynomial = 0x82F63B78;
  CrcTables tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kReversedPolynomial : 0);
    tables[0][i] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k)
    for (std::size_t i = 0; i < 256; ++i)
      tables[k][i] = tables[k - 1][i] >> 8 ^ tables[0][tables[k - 1][i] & 0xFF];
  return tables;
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

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr CrcTables kTables = make_tables();
  std::uint32_t crc = ~0u;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      const auto byte = static_cast<unsigned char>(bytes[i]);
      next ^= kTables[7 - i][i < 4 ? (byte ^ crc >> (8 * i)) & 0xFF : byte];
    }
    crc = next;
  }
  for (const char c : bytes) crc = crc >> 8 ^ kTables[0][(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
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

}  // namespace dpo::track
