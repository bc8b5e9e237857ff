#include "data/lines.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace dpo::data {
namespace {

constexpr std::size_t kBuffer = 1u << 18;

}  // namespace

CharReader::CharReader(std::unique_ptr<ByteReader> bytes) : bytes_(std::move(bytes)), buffer_(kBuffer) {
  // A file of Windows may begin with a byte order mark.
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

bool CharReader::read_line(std::string& text, std::size_t limit) {
  text.clear();
  if (peek() == kEnd) return false;
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
  return true;
}

}  // namespace dpo::data
