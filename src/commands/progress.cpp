#include "commands/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include "base/quantity.h"

namespace dpo::commands {
namespace {

std::size_t terminal_width() {
  winsize size{};
  constexpr std::size_t kUsual = 80;
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

std::string amount(std::int64_t done, std::int64_t all, const std::string& unit) {
  if (unit == "bytes") return fmt::format("{} of {}", file_size(done), file_size(all));
  return fmt::format("{} of {} {}", with_commas(done), with_commas(all), unit);
}

}  // namespace

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::clear() {
  if (open_) fmt::print(stderr, "\r\x1b[K");
  open_ = false;
}

void ProgressLine::show(const std::string& what, std::int64_t done, std::int64_t all,
                        const std::string& unit) {
  using std::chrono::milliseconds;
  constexpr milliseconds kBetweenBars{100}, kBetweenLines{5000}, kWorthKeeping{1000};
  const Clock::time_point now = Clock::now();
  if (what != what_ || done < done_) {  // other work
    what_ = what;
    start_ = shown_ = now;
    first_ = done;
    printed_ = false;
  }
  done_ = done;
  const bool ends = done == all;
  if (ends) done_ = all + 1;  // the same work may come again
  if (now - shown_ < (terminal_ ? kBetweenBars : kBetweenLines) && !(ends && (printed_ || open_))) return;
  shown_ = now;
  printed_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  std::string text = fmt::format("{}, {:.0f} s", amount(done, all, unit), seconds);
  if (unit == "bytes" && !ends && done > first_) {
    const double rate = static_cast<double>(done - first_) / seconds;
    text = fmt::format("{}, {}/s, {} left", amount(done, all, unit), file_size(std::llround(rate)),
                       rough_duration(static_cast<double>(all - done) / rate));
  }
  if (!terminal_) return fmt::print(stderr, "{}: {}\n", what, text);
  show_bar(all == 0 ? 1 : static_cast<double>(done) / static_cast<double>(all), text);
  if (!ends) return;
  if (now - start_ < kWorthKeeping) return clear();
  fmt::print(stderr, "\n");
  open_ = false;
}

void ProgressLine::show_bar(double share, const std::string& text) {
  constexpr std::size_t kWidth = 20;
  const auto filled = static_cast<std::size_t>(share * kWidth);
  const std::string bar =
      fmt::format(" [{:=<{}}{: <{}}] {:3.0f} %  {}", "", filled, "", kWidth - filled, 100 * share, text);
  // A long name is cut at its beginning: the end of a path says more.
  const std::size_t width = terminal_width();
  const std::size_t room = width > bar.size() + 1 ? width - bar.size() - 1 : 0;
  const std::string name = what_.size() <= room ? what_
                           : room > 3           ? "..." + what_.substr(what_.size() - (room - 3))
                                                : "";
  fmt::print(stderr, "\r{}\x1b[K", cut_to_terminal(name + bar));
  std::fflush(stderr);
  open_ = true;
}

std::string cut_to_terminal(std::string line) {
  line.resize(std::min(line.size(), terminal_width() - 1));
  return line;
}

}  // namespace dpo::commands
