#include "checkpoint/formats/zip.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/formats/zip_format.h"

namespace dpo::checkpoint {
namespace {

constexpr std::uint32_t kEndOfDirectory = 0x06054b50;
constexpr std::uint32_t kEndOfDirectory64 = 0x06064b50;
constexpr std::uint32_t kLocator64 = 0x07064b50;
constexpr std::uint32_t kDirectoryEntry = 0x02014b50;
constexpr std::uint32_t kLocalHeader = 0x04034b50;

// Little-endian numbers of an archive; reading outside of it is an error.
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
    if (at > bytes_.size() || size > bytes_.size() - at) fail("it is cut off or damaged");
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

// The end record stands before a comment of at most 65,535 bytes.
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
        archive.fail("its 64-bit directory is not where it says");
      return {archive.number(end64 + 48, 8), archive.number(end64 + 32, 8)};
    }
    return {archive.number(at + 16, 4), archive.number(at + 10, 2)};
  }
  archive.fail("it has no zip directory");
}

struct File {
  std::uint64_t size = 0;
  std::uint64_t header = 0;  // where its local header is
};

// Sizes and offsets beyond 32 bits stand in an extra field, in this order, only those that are needed.
void read_extra(const Archive& archive, std::uint64_t at, std::uint64_t end, std::uint64_t stored,
                File& file) {
  while (at + 4 <= end) {
    const std::uint64_t id = archive.number(at, 2);
    const std::uint64_t size = archive.number(at + 2, 2);
    at += 4;
    if (id == kExtraOf64) {
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
    archive.fail(fmt::format("'{}' is not where it says", name));
  const std::uint64_t start =
      file.header + 30 + archive.number(file.header + 26, 2) + archive.number(file.header + 28, 2);
  return archive.part(start, file.size);
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

}  // namespace dpo::checkpoint
