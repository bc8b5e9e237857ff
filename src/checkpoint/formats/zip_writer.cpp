#include "checkpoint/formats/zip_writer.h"

#include <algorithm>

#include <zlib.h>

#include "checkpoint/formats/zip_format.h"

namespace dpo::checkpoint {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kManyEntries = 0xffff;  // "see the 64-bit end record"
constexpr std::uint16_t kVersion64 = 45;        // that reading 64-bit sizes needs
constexpr std::uint16_t kNamesAreUtf8 = 1 << 11;
constexpr std::uint16_t kFirstDay = 0x21;  // 1 January 1980, where the format's time begins
constexpr std::uint16_t kExtraPadding = 0x4246;

// Little-endian numbers one after the other.
class Record {
 public:
  Record& u16(std::uint64_t value) { return number(value, 2); }
  Record& u32(std::uint64_t value) { return number(value, 4); }
  Record& u64(std::uint64_t value) { return number(value, 8); }
  Record& text(std::string_view value) {
    bytes_ += value;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Record& number(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  std::string bytes_;
};

std::uint64_t in_32_bits(std::uint64_t value) { return std::min(value, kIn64Bits); }

std::uint32_t checksum_of(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

// Sizes and offsets that need more than 32 bits, in the order of the format.
std::string extra_of(std::initializer_list<std::uint64_t> values) {
  Record large;
  for (const std::uint64_t value : values)
    if (value >= kIn64Bits) large.u64(value);
  if (large.bytes().empty()) return "";
  return Record().u16(kExtraOf64).u16(large.bytes().size()).text(large.bytes()).bytes();
}

}  // namespace

void ZipWriter::write(std::string_view text) {
  file_.write(text);
  written_ += text.size();
}

void ZipWriter::add(const std::string& name, std::span<const std::byte> bytes) {
  constexpr std::uint64_t kFixedPart = 30, kPaddingHead = 4;
  entries_.push_back({name, checksum_of(bytes), bytes.size(), written_});
  std::string extra = extra_of({bytes.size(), bytes.size()});
  const std::uint64_t data = written_ + kFixedPart + name.size() + extra.size() + kPaddingHead;
  const std::uint64_t padding = (kAlignment - data % kAlignment) % kAlignment;
  extra += Record().u16(kExtraPadding).u16(padding).text(std::string(padding, 'Z')).bytes();
  Record header;
  header.u32(0x04034b50).u16(kVersion64).u16(kNamesAreUtf8).u16(0).u16(0).u16(kFirstDay);
  header.u32(entries_.back().checksum).u32(in_32_bits(bytes.size())).u32(in_32_bits(bytes.size()));
  header.u16(name.size()).u16(extra.size()).text(name).text(extra);
  write(header.bytes());
  file_.write(bytes);
  written_ += bytes.size();
}

void ZipWriter::finish() {
  const std::uint64_t start = written_;
  for (const Entry& entry : entries_) {
    const std::string extra = extra_of({entry.size, entry.size, entry.offset});
    Record record;
    record.u32(0x02014b50).u16(kVersion64).u16(kVersion64).u16(kNamesAreUtf8).u16(0).u16(0).u16(kFirstDay);
    record.u32(entry.checksum).u32(in_32_bits(entry.size)).u32(in_32_bits(entry.size));
    record.u16(entry.name.size()).u16(extra.size()).u16(0).u16(0).u16(0).u32(0);
    record.u32(in_32_bits(entry.offset)).text(entry.name).text(extra);
    write(record.bytes());
  }
  const std::uint64_t end = written_, size = end - start, count = entries_.size();
  if (end >= kIn64Bits || count >= kManyEntries) {
    constexpr std::uint64_t kRestOfRecord = 44;
    Record record;
    record.u32(0x06064b50).u64(kRestOfRecord).u16(kVersion64).u16(kVersion64).u32(0).u32(0);
    record.u64(count).u64(count).u64(size).u64(start);
    record.u32(0x07064b50).u32(0).u64(end).u32(1);  // where that record is
    write(record.bytes());
  }
  const std::uint64_t shown = std::min(count, kManyEntries);
  Record last;
  last.u32(0x06054b50).u16(0).u16(0).u16(shown).u16(shown).u32(in_32_bits(size)).u32(in_32_bits(start));
  write(last.u16(0).bytes());
}

}  // namespace dpo::checkpoint
