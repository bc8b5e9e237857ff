#include "cli/progress.h"

#include <unistd.h>

#include <cstdio>

#include <fmt/format.h>

namespace dpo::cli {

ProgressLine::ProgressLine(const std::string& unit)
    : unit_(unit.empty() ? "" : " " + unit), terminal_(isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() {
  if (open_) fmt::print(stderr, "\n");
}

void ProgressLine::show(const std::string& what, std::int64_t done, std::int64_t all) {
  using std::chrono::milliseconds;
  constexpr int kWidth = 30;
  const Clock::time_point now = Clock::now();
  const bool ends = done == all;
  if (!ends && now - shown_ < milliseconds(terminal_ ? 100 : 5000)) return;
  shown_ = now;
  const double share = all == 0 ? 1 : static_cast<double>(done) / static_cast<double>(all);
  const double seconds = std::chrono::duration<double>(now - start_).count();
  if (!terminal_) {
    fmt::print(stderr, "{}: {} of {}{}, {:.0f} s\n", what, done, all, unit_, seconds);
    return;
  }
  const auto filled = static_cast<int>(share * kWidth);
  fmt::print(stderr, "\r{} [{:=<{}}{: <{}}] {:3.0f} %  {} of {}{}  {:.0f} s ", what, "", filled, "",
             kWidth - filled, 100 * share, done, all, unit_, seconds);
  open_ = !ends;
  if (ends) fmt::print(stderr, "\n");
  std::fflush(stderr);
}

}  // namespace dpo::cli
