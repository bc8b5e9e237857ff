#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace dpo::cli {

// How far something long is, on stderr: a bar that moves on a terminal, a line now and then in a pipe.
class ProgressLine {
 public:
  // `unit`: what is counted; empty where the name of the work says it.
  explicit ProgressLine(const std::string& unit);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const std::string& what, std::int64_t done, std::int64_t all);

 private:
  using Clock = std::chrono::steady_clock;

  std::string unit_;
  bool terminal_;
  bool open_ = false;  // a bar stands on the line
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_;
};

}  // namespace dpo::cli
