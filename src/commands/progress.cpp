#include "commands/progress.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "base/quantity.h"
#include "base/terminal.h"
#include "base/utf8.h"

namespace dpo::commands {
namespace {

std::string amount(std::int64_t done, std::int64_t all, const std::string& unit) {
  if (unit == "bytes") return fmt::format("{} of {}", file_size(done), file_size(all));
  return fmt::format("{} of {} {}", with_commas(done), with_commas(all), unit);
}

}  // namespace

ProgressLine::~ProgressLine() {
  if (is_shown_) Terminal::get().clear();
}

// On a terminal, the bar is due several times a second. In a pipe, the end of work is shown if its start was.
bool ProgressLine::is_due(Clock::time_point now, bool ends) {
  using namespace std::chrono_literals;
  constexpr Clock::duration kBetweenBars = 100ms, kFirstLine = 5s, kBetweenLines = 60s;
  if (Terminal::get().can_show_live_line()) return (ends && is_shown_) || now - shown_ >= kBetweenBars;
  const auto last = lines_.find(what_);
  const bool is_time =
      now - start_ >= kFirstLine && (last == lines_.end() || now - last->second >= kBetweenLines);
  if (is_time) lines_[what_] = now;
  return is_time || (ends && printed_);
}

std::string ProgressLine::text_of(std::int64_t done, std::int64_t all, const std::string& unit,
                                  double seconds) const {
  if (unit != "bytes" || done == all || done <= first_)
    return fmt::format("{}, {}", amount(done, all, unit), rough_duration(seconds));
  const double rate = static_cast<double>(done - first_) / seconds;
  return fmt::format("{}, {}/s, {} left", amount(done, all, unit), file_size(std::llround(rate)),
                     rough_duration(static_cast<double>(all - done) / rate));
}

void ProgressLine::show(const std::string& what, std::int64_t done, std::int64_t all,
                        const std::string& unit) {
  constexpr std::chrono::seconds kWorthKeeping{1};
  Terminal& terminal = Terminal::get();
  const Clock::time_point now = now_();
  if (what != what_ || done < done_) {  // different work
    what_ = what;
    start_ = shown_ = now;
    first_ = done;
    printed_ = false;
  }
  done_ = done;
  const bool ends = done == all;
  if (ends) done_ = all + 1;  // lets the same work start again
  if (!is_due(now, ends)) return;
  shown_ = now;
  printed_ = true;
  const std::string text = text_of(done, all, unit, std::chrono::duration<double>(now - start_).count());
  if (!terminal.can_show_live_line()) return terminal.print(fmt::format("{}: {}", what, text));
  const auto bar = [&](std::size_t columns) {
    return progress_bar(what, all == 0 ? 1 : static_cast<double>(done) / static_cast<double>(all), text,
                        columns);
  };
  is_shown_ = !ends;
  if (!ends) return terminal.show(bar);
  terminal.clear();
  // Other kinds of work are followed by a line with the result.
  if (unit == "bytes" && now - start_ >= kWorthKeeping) terminal.print(bar(terminal.width()));
}

std::string progress_bar(const std::string& what, double share, const std::string& text,
                         std::size_t columns) {
  constexpr std::size_t kWidth = 20;
  share = std::clamp(share, 0.0, 1.0);  // a file may be larger than announced
  const auto filled = static_cast<std::size_t>(share * kWidth);
  const std::string bar =
      fmt::format(" [{:=<{}}{: <{}}] {:3.0f} %  {}", "", filled, "", kWidth - filled, 100 * share, text);
  const std::size_t room = columns > bar.size() ? columns - bar.size() : 0;
  const std::string whole = replace_invalid_utf8(what);
  if (columns_of(whole) <= room) return whole + bar;
  constexpr std::string_view kCut = "...";
  std::string_view name = whole;  // cut at the start, because the end of a path is more useful
  while (columns_of(name) + kCut.size() > std::max(room, kCut.size()))
    name.remove_prefix(code_point_at(name, 0).length);
  return cut_to_columns(fmt::format("{}{}{}", room > kCut.size() ? kCut : "", name, bar), columns);
}

}  // namespace dpo::commands
