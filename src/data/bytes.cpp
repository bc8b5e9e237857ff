#include "data/bytes.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include "base/error.h"
#include "base/open_file.h"

namespace dpo::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBuffer = 1u << 18;
// Text compresses about 4 times, and repeated text 100 times. A file that expands to more than kLargestRatio
// times its size, and to more than kAlwaysAllowed bytes, is treated as a decompression bomb.
constexpr std::uint64_t kLargestRatio = 300;
constexpr std::uint64_t kAlwaysAllowed = 64u << 20;

[[noreturn]] void fail(const fs::path& file, std::string_view what) {
  throw UserError(fmt::format("{}: {}", file.string(), what));
}

class PlainReader : public ByteReader {
 public:
  explicit PlainReader(const fs::path& file) : path_(file) {
    check_regular(file, "data");
    file_ = std::fopen(file.c_str(), "rb");
    if (!file_) fail(path_, fmt::format("cannot be read: {}", std::strerror(errno)));
  }
  ~PlainReader() override { std::fclose(file_); }
  PlainReader(const PlainReader&) = delete;
  PlainReader& operator=(const PlainReader&) = delete;

  std::size_t read(std::span<char> into) override {
    const std::size_t count = std::fread(into.data(), 1, into.size(), file_);
    if (count == 0 && std::ferror(file_))
      fail(path_, fmt::format("reading failed: {}", std::strerror(errno)));
    return count;
  }

  void rewind() { std::rewind(file_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  std::FILE* file_ = nullptr;
};

// Base of the decompressing readers: a buffer of compressed bytes, and the limit on their expansion.
class CompressedReader : public ByteReader {
 protected:
  explicit CompressedReader(std::unique_ptr<PlainReader> file) : file_(std::move(file)), buffer_(kBuffer) {}

  // Returns the next compressed bytes, empty at the end of the file.
  std::span<char> refill() {
    const std::size_t count = file_->read(buffer_);
    compressed_ += count;
    return std::span(buffer_).first(count);
  }

  void count(std::size_t bytes) {
    decompressed_ += bytes;
    if (decompressed_ > kAlwaysAllowed && decompressed_ / kLargestRatio > compressed_)
      fail(path(),
           fmt::format("decompresses to more than {} times its size; the file is damaged or malicious",
                       kLargestRatio));
  }

  const fs::path& path() const { return file_->path(); }
  [[noreturn]] void fail_cut() const { fail(path(), "the compressed file is truncated; download it again"); }
  [[noreturn]] void fail_damaged(const char* why) const {
    fail(path(),
         fmt::format("the compressed file is damaged ({}); download it again", why ? why : "bad data"));
  }

 private:
  std::unique_ptr<PlainReader> file_;
  std::vector<char> buffer_;
  std::uint64_t compressed_ = 0;
  std::uint64_t decompressed_ = 0;
};

class GzipReader : public CompressedReader {
 public:
  explicit GzipReader(std::unique_ptr<PlainReader> file) : CompressedReader(std::move(file)) {
    constexpr int kGzip = 16;
    if (inflateInit2(&stream_, MAX_WBITS + kGzip) != Z_OK) throw std::bad_alloc();
  }
  ~GzipReader() override { inflateEnd(&stream_); }
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  std::size_t read(std::span<char> into) override {
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(into.size(), 1u << 30));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted) {
      if (stream_.avail_in == 0) {
        const std::span<char> more = refill();
        if (more.empty() && inside_) fail_cut();
        if (more.empty()) break;
        stream_.next_in = reinterpret_cast<Bytef*>(more.data());
        stream_.avail_in = static_cast<uInt>(more.size());
      }
      // A file may have several members, one after another.
      if (!inside_ && inflateReset(&stream_) != Z_OK) fail_damaged(stream_.msg);
      inside_ = true;
      const int state = inflate(&stream_, Z_NO_FLUSH);
      if (state == Z_STREAM_END)
        inside_ = false;
      else if (state != Z_OK && state != Z_BUF_ERROR)
        fail_damaged(stream_.msg);
    }
    count(wanted - stream_.avail_out);
    return wanted - stream_.avail_out;
  }

 private:
  z_stream stream_{};
  bool inside_ = true;  // true inside a gzip member
};

// Decompresses into its own buffer. With room for a whole frame the library checks more of a damaged one, and
// acceptance must not depend on the caller's buffer.
class ZstdReader : public CompressedReader {
 public:
  explicit ZstdReader(std::unique_ptr<PlainReader> file)
      : CompressedReader(std::move(file)), stream_(ZSTD_createDStream()), text_(kBuffer) {
    if (!stream_) throw std::bad_alloc();
  }
  ~ZstdReader() override { ZSTD_freeDStream(stream_); }
  ZstdReader(const ZstdReader&) = delete;
  ZstdReader& operator=(const ZstdReader&) = delete;

  std::size_t read(std::span<char> into) override {
    if (unread_.empty()) unread_ = decode();
    const std::size_t count = std::min(into.size(), unread_.size());
    std::copy_n(unread_.begin(), count, into.begin());
    unread_ = unread_.subspan(count);
    return count;
  }

 private:
  // Returns the next decompressed bytes, empty at the end of the file.
  std::span<const char> decode() {
    ZSTD_outBuffer out{text_.data(), text_.size(), 0};
    while (out.pos == 0) {
      if (in_.pos == in_.size) {
        const std::span<char> more = refill();
        // A decoder whose output buffer was full continues without input.
        if (more.empty() && rest_ != 0 && !full_) fail_cut();
        if (more.empty() && !full_) break;
        in_ = {more.data(), more.size(), 0};
      }
      rest_ = ZSTD_decompressStream(stream_, &out, &in_);
      if (ZSTD_isError(rest_)) fail_damaged(ZSTD_getErrorName(rest_));
      full_ = rest_ != 0 && out.pos == out.size;
    }
    count(out.pos);
    return std::span(text_).first(out.pos);
  }

  ZSTD_DStream* stream_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  std::size_t rest_ = 0;  // 0 if a frame is complete
  bool full_ = false;
  std::vector<char> text_;
  std::span<const char> unread_;
};

// Describes a file without readable rows by its first bytes, with advice. Returns an empty string for other
// files.
std::string_view other_kind(std::string_view start, const fs::path& file) {
  using namespace std::string_view_literals;
  const auto begins = [&](std::string_view bytes) { return start.starts_with(bytes); };
  // ASCII in UTF-16 has a zero in every other byte.
  const bool wide = start.size() >= 4 && ((start[0] == 0) != (start[1] == 0)) &&
                    (start[0] == 0) == (start[2] == 0) && (start[1] == 0) == (start[3] == 0);
  if (begins("\xff\xfe") || begins("\xfe\xff") || wide)
    return "is UTF-16 text, expected UTF-8; save it as UTF-8";
  if (begins("PK\x03\x04"))
    return "is a zip archive or a spreadsheet, expected rows; unpack it, or save it as CSV";
  if (begins("BZh") || begins("\xfd"
                              "7zXZ\0"sv))
    return "is compressed with bzip2 or xz, expected gzip or zstd; unpack it";
  if (begins("PAR1") && file.extension() != ".parquet") return "is a Parquet file; name it .parquet";
  if (!begins("PAR1") && file.extension() == ".parquet" && !start.empty())
    return "is not a Parquet file (it does not begin with PAR1); rename it to its format (.jsonl, .csv, ...)";
  return "";
}

}  // namespace

std::unique_ptr<ByteReader> open_bytes(const fs::path& file) {
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) fail(file, "is a folder, expected a file");
  auto plain = std::make_unique<PlainReader>(file);
  std::array<char, 64> first{};
  const std::string_view start(first.data(), plain->read(first));
  plain->rewind();
  if (start.starts_with("version https://git-lfs.github.com/spec/"))
    fail(file,
         "this is a Git LFS pointer, not the data: run 'git lfs pull' in its repository, or download the "
         "file");
  if (const std::string_view other = other_kind(start, file); !other.empty()) fail(file, other);
  if (start.starts_with("\x1f\x8b")) return std::make_unique<GzipReader>(std::move(plain));
  if (start.starts_with("\x28\xb5\x2f\xfd")) return std::make_unique<ZstdReader>(std::move(plain));
  const bool should_be_compressed = file.extension() == ".gz" || file.extension() == ".zst";
  if (should_be_compressed && !start.empty()) fail(file, "is named .gz or .zst but is not compressed");
  if (should_be_compressed) fail(file, "is empty");
  return plain;
}

CharReader::CharReader(std::unique_ptr<ByteReader> bytes) : bytes_(std::move(bytes)), buffer_(kBuffer) {
  // Files from Windows may begin with a byte order mark.
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  while (size_ < kMark.size()) {
    const std::size_t count = bytes_->read(std::span(buffer_).subspan(size_));
    if (count == 0) break;
    size_ += count;
  }
  if (std::string_view(buffer_.data(), size_).starts_with(kMark)) at_ = kMark.size();
}

bool CharReader::fill() {
  at_ = 0;
  size_ = bytes_->read(buffer_);
  return size_ > 0;
}

void CharReader::read_to_end_of_line(std::string& text, std::size_t limit) {
  text.clear();
  while (peek() != kEnd) {
    const char* const begin = buffer_.data() + at_;
    const auto* const end = static_cast<const char*>(std::memchr(begin, '\n', size_ - at_));
    const std::size_t count = end ? static_cast<std::size_t>(end - begin) : size_ - at_;
    text.append(begin, std::min(count, limit + 1 - std::min(text.size(), limit + 1)));
    at_ += count;
    if (!end) continue;
    next();
    break;
  }
  if (text.ends_with('\r')) text.pop_back();
}

std::int64_t CharReader::read_line(std::string& text, std::size_t limit) {
  while (peek() != kEnd) {
    const std::int64_t number = line();
    read_to_end_of_line(text, limit);
    if (text.find_first_not_of(" \t\r") != text.npos) return number;
  }
  return 0;
}

}  // namespace dpo::data
