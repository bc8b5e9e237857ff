#include "checkpoint/formats/zip.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>
#include <zlib.h>

#include "base/error.h"

namespace dpo::checkpoint {
namespace {

constexpr std::uint32_t kEndOfDirectory = 0x06054b50;
constexpr std::uint32_t kEndOfDirectory64 = 0x06064b50;
constexpr std::uint32_t kLocator64 = 0x07064b50;
constexpr std::uint32_t kDirectoryEntry = 0x02014b50;
constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint16_t kExtra64 = 1;            // the extra field with 64-bit sizes and offsets
constexpr std::uint64_t kIn64Bits = 0xffffffff;  // means "see the extra field"

// Reads little-endian numbers of an archive. Reading outside it is an error.
class Archive {
 public:
  Archive(std::span<const std::byte> bytes, const std::string& origin) : bytes_(bytes), origin_(origin) {}

  std::uint64_t number(std::uint64_t at, std::size_t size) const {
    const auto bytes = part(at, size);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) value |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
    return value;
  }

  std::span<const std::byte> part(std::uint64_t at, std::uint64_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) fail("it is truncated or damaged");
    return bytes_.subspan(at, size);
  }

  std::string text(std::uint64_t at, std::uint64_t size) const {
    const auto bytes = part(at, size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::uint64_t size() const { return bytes_.size(); }
  [[noreturn]] void fail(const std::string& why) const {
    throw UserError(fmt::format("{}: not a readable PyTorch archive: {}", origin_, why));
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& origin_;
};

struct Directory {
  std::uint64_t start = 0;
  std::uint64_t entries = 0;
};

// The end record is followed by a comment of at most 65,535 bytes.
Directory find_directory(const Archive& archive) {
  constexpr std::uint64_t kEndSize = 22, kLongestComment = 65'535, kLocatorSize = 20;
  if (archive.size() < kEndSize) archive.fail("it is too small");
  const std::uint64_t last = archive.size() - kEndSize;
  for (std::uint64_t back = 0; back <= std::min(last, kLongestComment); ++back) {
    const std::uint64_t at = last - back;
    if (archive.number(at, 4) != kEndOfDirectory) continue;
    if (at >= kLocatorSize && archive.number(at - kLocatorSize, 4) == kLocator64) {
      const std::uint64_t end64 = archive.number(at - kLocatorSize + 8, 8);
      if (archive.number(end64, 4) != kEndOfDirectory64)
        archive.fail("its 64-bit directory is not at its recorded offset");
      return {archive.number(end64 + 48, 8), archive.number(end64 + 32, 8)};
    }
    return {archive.number(at + 16, 4), archive.number(at + 10, 2)};
  }
  archive.fail("it has no zip directory");
}

struct File {
  std::uint64_t size = 0;
  std::uint64_t header = 0;  // position of its local header
};

// Reads sizes and offsets beyond 32 bits from the extra field. It has only those that need it, in this order.
void read_extra(const Archive& archive, std::uint64_t at, std::uint64_t end, std::uint64_t stored,
                File& file) {
  while (at + 4 <= end) {
    const std::uint64_t id = archive.number(at, 2);
    const std::uint64_t size = archive.number(at + 2, 2);
    at += 4;
    if (id == kExtra64) {
      std::uint64_t field = at;
      const auto take = [&](std::uint64_t& value) {
        if (value != kIn64Bits) return;
        value = archive.number(field, 8);
        field += 8;
      };
      take(file.size);
      take(stored);
      take(file.header);
      return;
    }
    at += size;
  }
}

std::span<const std::byte> contents(const Archive& archive, const File& file, const std::string& name) {
  if (archive.number(file.header, 4) != kLocalHeader)
    archive.fail(fmt::format("'{}' is not at its recorded offset", name));
  const std::uint64_t start =
      file.header + 30 + archive.number(file.header + 26, 2) + archive.number(file.header + 28, 2);
  return archive.part(start, file.size);
}

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kManyEntries = 0xffff;  // means "see the 64-bit end record"
constexpr std::uint16_t kVersion64 = 45;        // needed to read 64-bit sizes
constexpr std::uint16_t kNamesAreUtf8 = 1 << 11;
constexpr std::uint16_t kFirstDay = 0x21;  // 1 January 1980, the format's earliest date
constexpr std::uint16_t kExtraPadding = 0x4246;

// Appends little-endian numbers.
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

// Returns the extra field with the values that need more than 32 bits, in the order of the format.
std::string extra_of(std::initializer_list<std::uint64_t> values) {
  Record large;
  for (const std::uint64_t value : values)
    if (value >= kIn64Bits) large.u64(value);
  if (large.bytes().empty()) return "";
  return Record().u16(kExtra64).u16(large.bytes().size()).text(large.bytes()).bytes();
}

}  // namespace

std::map<std::string, std::span<const std::byte>> read_stored_zip(std::span<const std::byte> bytes,
                                                                  const std::string& origin) {
  const Archive archive(bytes, origin);
  const Directory directory = find_directory(archive);
  std::map<std::string, std::span<const std::byte>> files;
  std::uint64_t at = directory.start;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    if (archive.number(at, 4) != kDirectoryEntry) archive.fail("its directory is damaged");
    const std::uint64_t name_size = archive.number(at + 28, 2);
    const std::uint64_t extra_size = archive.number(at + 30, 2);
    const std::uint64_t comment_size = archive.number(at + 32, 2);
    const std::string name = archive.text(at + 46, name_size);
    if (archive.number(at + 10, 2) != 0) archive.fail(fmt::format("'{}' is compressed", name));
    File file{archive.number(at + 24, 4), archive.number(at + 42, 4)};
    const std::uint64_t extra = at + 46 + name_size;
    read_extra(archive, extra, extra + extra_size, archive.number(at + 20, 4), file);
    if (!files.emplace(name, contents(archive, file, name)).second)
      archive.fail(fmt::format("'{}' occurs twice", name));
    at = extra + extra_size + comment_size;
  }
  return files;
}

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
  header.u32(kLocalHeader).u16(kVersion64).u16(kNamesAreUtf8).u16(0).u16(0).u16(kFirstDay);
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
    record.u32(kDirectoryEntry)
        .u16(kVersion64)
        .u16(kVersion64)
        .u16(kNamesAreUtf8)
        .u16(0)
        .u16(0)
        .u16(kFirstDay);
    record.u32(entry.checksum).u32(in_32_bits(entry.size)).u32(in_32_bits(entry.size));
    record.u16(entry.name.size()).u16(extra.size()).u16(0).u16(0).u16(0).u32(0);
    record.u32(in_32_bits(entry.offset)).text(entry.name).text(extra);
    write(record.bytes());
  }
  const std::uint64_t end = written_, size = end - start, count = entries_.size();
  if (end >= kIn64Bits || count >= kManyEntries) {
    constexpr std::uint64_t kRestOfRecord = 44;
    Record record;
    record.u32(kEndOfDirectory64).u64(kRestOfRecord).u16(kVersion64).u16(kVersion64).u32(0).u32(0);
    record.u64(count).u64(count).u64(size).u64(start);
    record.u32(kLocator64).u32(0).u64(end).u32(1);  // points to the 64-bit end record
    write(record.bytes());
  }
  const std::uint64_t shown = std::min(count, kManyEntries);
  Record last;
  last.u32(kEndOfDirectory).u16(0).u16(0).u16(shown).u16(shown).u32(in_32_bits(size)).u32(in_32_bits(start));
  write(last.u16(0).bytes());
}

}  // namespace dpo::checkpoint
