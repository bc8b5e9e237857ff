#include "commands/live_line.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/quantity.h"
#include "base/terminal.h"
#include "report/accuracy.h"

namespace dpo::commands {
namespace {

constexpr std::string_view kGap = "  ";
constexpr std::size_t kFrame = std::string_view(" []  99 %").size(), kLeastBar = kFrame + 10;

struct Part {
  std::string text;
  int rank;  // parts with the highest rank are dropped first
};

std::size_t size_of(const std::vector<Part>& parts) {
  std::size_t size = 0;
  for (const Part& part : parts) size += kGap.size() + part.text.size();
  return size - kGap.size();
}

std::string rate(double per_second) { return fmt::format("{:.{}f}", per_second, per_second < 99.95 ? 1 : 0); }

std::vector<Part> parts_of(const LiveUpdate& last, bool brief) {
  std::vector<Part> parts;
  const auto add = [&](double value, int rank, const std::string& text) {
    if (!std::isnan(value)) parts.push_back({text, rank});
  };
  add(0, 0, fmt::format(fmt::runtime(brief ? "{}/{}" : "update {} of {}"), last.update, last.updates));
  add(last.loss, 1, fmt::format("loss {:.4f}", last.loss));
  add(last.accuracy, 3,
      fmt::format("{} {}", brief ? "acc" : "accuracy", report::accuracy_text(last.accuracy, last.margin)));
  add(last.margin, 4, fmt::format("margin {:+.3f}", last.margin));
  if (!brief) add(last.gradient_norm, 6, fmt::format("norm {:.3g}", last.gradient_norm));
  if (!brief) add(last.learning_rate, 7, fmt::format("lr {:.2g}", last.learning_rate));
  add(last.examples_per_second, 5, rate(last.examples_per_second) + (brief ? "/s" : " examples/s"));
  add(last.seconds_left, 2, fmt::format("{} left", rough_duration(last.seconds_left)));
  return parts;
}

void drop_until_fits(std::vector<Part>& parts, std::size_t columns, int least_rank) {
  while (size_of(parts) > columns) {
    const auto last = std::ranges::max_element(parts, {}, &Part::rank);
    if (last->rank < least_rank) return;
    parts.erase(last);
  }
}

// Returns the bar after the first part, in the space that the other parts leave.
std::string bar_of(const LiveUpdate& last, std::size_t room) {
  constexpr std::size_t kMost = 40;
  if (room < kLeastBar) return "";
  const std::size_t width = std::min(room - kFrame, kMost);
  const double share = std::min(1.0, static_cast<double>(last.update) / static_cast<double>(last.updates));
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(width));
  return fmt::format(" [{:=<{}}{: <{}}] {:3.0f} %", "", filled, "", width - filled, 100 * share);
}

}  // namespace

std::string live_line(const LiveUpdate& last, std::size_t columns) {
  constexpr int kFirstExtra = 6;  // norm and lr, which matter less than the bar
  std::vector<Part> parts = parts_of(last, /*brief=*/false);
  drop_until_fits(parts, columns - std::min(columns, kLeastBar), kFirstExtra);
  if (size_of(parts) > columns) parts = parts_of(last, /*brief=*/true);
  drop_until_fits(parts, columns, /*least_rank=*/1);
  parts.front().text += bar_of(last, columns - std::min(columns, size_of(parts)));
  std::vector<std::string_view> texts;
  for (const Part& part : parts) texts.push_back(part.text);
  return cut_to_columns(fmt::format("{}", fmt::join(texts, kGap)), columns);
}

}  // namespace dpo::commands
