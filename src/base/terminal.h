#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace dpo {

// Whether a descriptor is a terminal on which a line can be written over (not TERM=dumb), and whether it
// should show colours too (not with NO_COLOR).
bool is_terminal(int descriptor);
bool wants_colours(int descriptor);

// How many columns a text takes at most. Characters of East Asian scripts, symbols and emoji count as two.
std::size_t columns_of(std::string_view text);

// The longest beginning that fits. Characters that would move the cursor become '?'.
std::string cut_to_columns(std::string_view text, std::size_t columns);

// Breaks a text at spaces where a line would be longer than `width`; lines after the first are indented, and
// the first begins in column `indent`.
std::string wrap_words(std::string_view text, std::size_t indent, std::size_t width);

// Opens what the process was started without, of stdin, stdout and stderr: otherwise the next file that is
// opened would take its place, and be written to.
void open_standard_streams();

// Writes to stderr. That it is closed, or its disk full, is no reason for a run to end.
void write_stderr(std::string_view text);

// stderr of this process: lines, and on a terminal below them one live line, which is replaced as work
// continues. Everything that may be printed while there is a live line must be printed here.
class Terminal {
 public:
  static Terminal& get();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  bool has_live_line() const { return terminal_; }  // no: a pipe, or TERM=dumb
  bool has_colours() const { return colours_; }
  std::size_t width() const;  // in columns; asked again each time

  // Prints a line, above the live line.
  void print(const std::string& line);

  // Replaces the live line by one of at most `columns`; at most ten times a second. Nothing in a pipe.
  void show(const std::function<std::string(std::size_t columns)>& line);

  // Removes the live line.
  void clear();

  // The same for a process that ends at once; also in a signal handler. The live line does not come back.
  static void clear_for_exit();

 private:
  using Clock = std::chrono::steady_clock;

  Terminal();
  std::size_t live_columns() const;
  std::string erased() const;

  const bool terminal_, colours_;
  mutable std::mutex mutex_;
  std::string live_;  // empty: none is shown
  Clock::time_point drawn_{};
};

}  // namespace dpo
