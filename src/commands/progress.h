#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

namespace dpo::commands {

// Shows the progress of long work on stderr. A terminal shows a bar. A pipe gets a line after a few seconds
// and then one per minute, even if the same kind of work repeats. Quick work shows nothing.
class ProgressLine {
 public:
  using Clock = std::chrono::steady_clock;

  // `now` returns the time.
  explicit ProgressLine(std::function<Clock::time_point()> now = Clock::now) : now_(std::move(now)) {}
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // `unit` names what is counted. Bytes are shown as sizes, with their rate and the time left.
  void show(const std::string& what, std::int64_t done, std::int64_t all, const std::string& unit);

 private:
  bool is_due(Clock::time_point now, bool ends);
  std::string text_of(std::int64_t done, std::int64_t all, const std::string& unit, double seconds) const;

  const std::function<Clock::time_point()> now_;
  bool is_shown_ = false;  // this bar is the live line
  std::string what_;
  std::int64_t done_ = 0, first_ = 0;
  bool printed_ = false;  // a line of this work was printed to a pipe
  Clock::time_point start_, shown_;
  std::map<std::string, Clock::time_point> lines_;  // time of the last line of each kind of work, in a pipe
};

// Formats "reading weights [=====     ]  50 %  1.0 GB of 2.0 GB, 3 s". A long name is cut at its start.
std::string progress_bar(const std::string& what, double share, const std::string& text, std::size_t columns);

}  // namespace dpo::commands
