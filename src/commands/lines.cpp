#include "commands/lines.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include "base/error.h"

namespace dpo::commands {
namespace {

constexpr std::size_t kBatchBytes = 8u << 20;

bool is_ready() {
  pollfd in{STDIN_FILENO, POLLIN, 0};
  return poll(&in, 1, 0) > 0;
}

}  // namespace

bool LineReader::next_batch(std::vector<std::string_view>& lines) {
  lines.clear();
  buffer_.erase(0, used_);
  used_ = 0;
  bool has_line = false;  // data left by the last batch is an incomplete line
  while (!ended_ && (!has_line || (buffer_.size() < kBatchBytes && is_ready()))) {
    const std::size_t before = buffer_.size();
    read_more();
    has_line = has_line || buffer_.find('\n', before) != buffer_.npos;
  }
  for (std::size_t end = 0; used_ < buffer_.size(); used_ = end + 1) {
    end = buffer_.find('\n', used_);
    if (end == buffer_.npos && !ended_) break;
    end = std::min(end, buffer_.size());
    lines.push_back(std::string_view(buffer_).substr(used_, end - used_));
  }
  used_ = std::min(used_, buffer_.size());
  return !lines.empty();
}

void LineReader::read_more() {
  char piece[1 << 16];
  const ssize_t count = ::read(STDIN_FILENO, piece, sizeof piece);
  if (count < 0 && errno == EINTR) return;
  if (count < 0) throw UserError(fmt::format("stdin: {}", std::strerror(errno)));
  ended_ = count == 0;
  buffer_.append(piece, static_cast<std::size_t>(count));
}

void print_lines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines)
    if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size())
      throw UserError(fmt::format("stdout: {}", std::strerror(errno)));
  std::fflush(stdout);
}

}  // namespace dpo::commands
