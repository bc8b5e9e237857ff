#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace dpo::commands {

// Progress of long work on stderr: a bar on a terminal, a line every few seconds in a pipe. Quick work shows
// nothing.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // `unit`: what is counted; bytes are shown as sizes, with their rate and the time left.
  void show(const std::string& what, std::int64_t done, std::int64_t all, const std::string& unit);

  // Removes an unfinished bar, so that another line can be printed.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  void show_bar(double share, const std::string& text);

  bool terminal_;
  bool open_ = false;  // the line shows a bar
  std::string what_;
  std::int64_t done_ = 0, first_ = 0;
  bool printed_ = false;  // a line of this work was printed to a pipe
  Clock::time_point start_, shown_;
};

// Cuts a line to the width of the terminal, so that it can be overwritten.
std::string cut_to_terminal(std::string line);

}  // namespace dpo::commands
