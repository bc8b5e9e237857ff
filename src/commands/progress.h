#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace dpo::commands {

// How far something long is, on stderr: a bar that moves on a terminal, a line now and then in a pipe.
// What is over at once leaves no trace.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // `unit`: what is counted; bytes are shown as sizes.
  void show(const std::string& what, std::int64_t done, std::int64_t all, const std::string& unit);

  // Makes room for another line: a bar that has not come to its end is taken away.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  void show_bar(double share, const std::string& text);

  bool terminal_;
  bool open_ = false;  // a bar stands on the line
  std::string what_;
  std::int64_t done_ = 0;
  bool said_ = false;  // something of this work was shown in a pipe
  Clock::time_point start_, shown_;
};

// A line that is to be written over, cut to what the terminal has room for.
std::string fitted(std::string line);

}  // namespace dpo::commands
