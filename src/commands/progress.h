#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace dpo::commands {

// Progress of long work on stderr: a bar on a terminal, a line every few seconds in a pipe. Quick work shows
// nothing.
class ProgressLine {
 public:
  ProgressLine() = default;
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // `unit`: what is counted; bytes are shown as sizes, with their rate and the time left.
  void show(const std::string& what, std::int64_t done, std::int64_t all, const std::string& unit);

 private:
  using Clock = std::chrono::steady_clock;

  bool is_shown_ = false;  // the live line is this bar
  std::string what_;
  std::int64_t done_ = 0, first_ = 0;
  bool printed_ = false;  // a line of this work was printed to a pipe
  Clock::time_point start_, shown_;
};

// "reading weights [=====     ]  50 %  1.0 GB of 2.0 GB, 3 s". A long name is cut at its beginning.
std::string progress_bar(const std::string& what, double share, const std::string& text, std::size_t columns);

}  // namespace dpo::commands
