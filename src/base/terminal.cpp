#include "base/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <tuple>

#include <fmt/format.h>

#include "base/progress_count.h"
#include "base/utf8.h"

namespace dpo {
namespace {

constexpr std::string_view kErase = "\r\x1b[K";

// Read by clear_for_exit without a lock.
std::atomic<bool> live_line_shown{false}, ended{false};

std::size_t width_of(char32_t code) {
  constexpr char32_t kFirstWide = 0x1100;
  return code < kFirstWide ? 1 : 2;
}

bool is_control(char32_t code) { return code < 0x20 || (code >= 0x7F && code < 0xA0); }

}  // namespace

void open_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) == -1)
      std::ignore = ::open("/dev/null", O_RDWR);  // open() uses the lowest free descriptor
}

// Writes in one call, so that a half-drawn line is never visible.
void write_stderr(std::string_view text) {
  const WaitingForOthers waiting;
  while (!text.empty()) {
    const ssize_t count = ::write(STDERR_FILENO, text.data(), text.size());
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

bool is_terminal(int descriptor) {
  const char* const type = std::getenv("TERM");
  return ::isatty(descriptor) != 0 && type && std::string_view(type) != "dumb";
}

bool wants_colours(int descriptor) {
  const char* const refused = std::getenv("NO_COLOR");
  return is_terminal(descriptor) && (!refused || *refused == '\0');
}

std::size_t columns_of(std::string_view text) {
  const std::string valid = replace_invalid_utf8(text);
  std::size_t columns = 0;
  for (std::size_t at = 0; at < valid.size();) {
    const CodePoint point = code_point_at(valid, at);
    columns += width_of(point.code);
    at += point.length;
  }
  return columns;
}

std::string cut_to_columns(std::string_view text, std::size_t columns) {
  const std::string valid = replace_invalid_utf8(text);
  std::string cut;
  for (std::size_t at = 0, used = 0; at < valid.size();) {
    const CodePoint point = code_point_at(valid, at);
    used += width_of(point.code);
    if (used > columns) break;
    is_control(point.code) ? cut += '?' : cut.append(valid, at, point.length);
    at += point.length;
  }
  return cut;
}

std::string wrap_words(std::string_view text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t column = indent;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(' ', start), text.size());
    const std::string_view word = text.substr(start, end - start);
    const std::size_t length = columns_of(word);
    if (column > indent && column + 1 + length > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += length;
    start = end + 1;
  }
  return out;
}

Terminal& Terminal::get() {
  static Terminal only;
  return only;
}

Terminal::Terminal() : terminal_(is_terminal(STDERR_FILENO)), colours_(wants_colours(STDERR_FILENO)) {}

std::size_t Terminal::width() const {
  winsize size{};
  constexpr std::size_t kUsual = 80;
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

std::size_t Terminal::live_columns() const {
  constexpr std::size_t kEcho = 3;  // the terminal prints ^C after the live line, which must not wrap
  return std::max(width(), kEcho + 1) - kEcho;
}

// Returns the text that erases the live line. If the terminal has become narrower, the line spans several
// rows.
std::string Terminal::erased() const {
  if (live_.empty()) return "";
  const std::size_t above = (columns_of(live_) - 1) / width();
  return above == 0 ? std::string(kErase) : fmt::format("\r\x1b[{}A\x1b[J", above);
}

void Terminal::print(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (!terminal_) return write_stderr(line + "\n");
  const std::string erase = erased();
  live_ = cut_to_columns(live_, live_columns());
  write_stderr(erase + line + "\n" + live_);
}

void Terminal::show(const std::function<std::string(std::size_t)>& line) {
  constexpr std::chrono::milliseconds kBetween{100};
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (!terminal_ || ended || (!live_.empty() && now - drawn_ < kBetween)) return;
  drawn_ = now;
  const std::string erase = live_.empty() ? std::string(kErase) : erased();
  live_ = cut_to_columns(line(live_columns()), live_columns());
  live_line_shown = true;
  write_stderr(erase + live_);
}

void Terminal::clear() {
  const std::lock_guard lock(mutex_);
  write_stderr(erased());
  live_.clear();
  live_line_shown = false;
}

void Terminal::clear_for_exit() {
  ended = true;
  if (live_line_shown.exchange(false)) write_stderr(kErase);
}

}  // namespace dpo
