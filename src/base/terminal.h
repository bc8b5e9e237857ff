#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace dpo {

// is_terminal returns true for a terminal on which a line can be overwritten (not TERM=dumb). wants_colours
// returns true if output to it should also have colours (not with NO_COLOR).
bool is_terminal(int descriptor);
bool wants_colours(int descriptor);

// Returns an upper bound of the columns that a text needs. East Asian characters, symbols and emoji count as
// two.
std::size_t columns_of(std::string_view text);

// Returns the longest prefix that fits. Characters that would move the cursor become '?'.
std::string cut_to_columns(std::string_view text, std::size_t columns);

// Breaks a text at spaces where a line would be longer than `width`. The first line begins in column
// `indent`; later lines are indented.
std::string wrap_words(std::string_view text, std::size_t indent, std::size_t width);

// Opens those of stdin, stdout and stderr that the process was started without. Otherwise the next opened
// file would take their descriptor and receive their output.
void open_standard_streams();

// Writes to stderr. Failure is ignored, because a closed stderr or a full disk must not end a run.
void write_stderr(std::string_view text);

// Writes this process's stderr: lines, and on a terminal a live line below them, which is replaced as work
// continues. While a live line exists, everything must be printed through this class.
class Terminal {
 public:
  static Terminal& get();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  bool can_show_live_line() const { return terminal_; }  // false in a pipe, or with TERM=dumb
  bool has_colours() const { return colours_; }
  std::size_t width() const;  // in columns, queried on each call

  // Prints a line above the live line.
  void print(const std::string& line);

  // Replaces the live line with one of at most `columns`, at most ten times a second. Does nothing in a pipe.
  void show(const std::function<std::string(std::size_t columns)>& line);

  // Removes the live line.
  void clear();

  // Removes the live line of a process that is about to end, and never shows it again. Safe in a signal
  // handler.
  static void clear_for_exit();

 private:
  using Clock = std::chrono::steady_clock;

  Terminal();
  std::size_t live_columns() const;
  std::string erased() const;

  const bool terminal_, colours_;
  mutable std::mutex mutex_;
  std::string live_;  // "" if none is shown
  Clock::time_point drawn_{};
};

}  // namespace dpo
