#include "base/quantity.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <fmt/format.h>

namespace dpo {
namespace {

constexpr double kMinute = 60, kHour = 3600, kDay = 86400;  // seconds

// Formats a number in the largest unit in which it is at least 1 after rounding.
template <std::size_t Count>
std::string scaled(double number, double step, const std::array<const char*, Count>& units) {
  std::size_t unit = 0;
  for (; unit + 1 < Count && number >= step * 0.9995; ++unit) number /= step;
  const int digits = unit == 0 || number >= 99.95 ? 0 : 1;
  return fmt::format("{:.{}f} {}", number, digits, units[unit]);
}

}  // namespace

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(std::abs(number));
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return (number < 0 ? "-" : "") + text;
}

std::string short_count(std::int64_t number) {
  constexpr std::int64_t kExact = 100'000;  // below it, all digits are as short
  if (number < kExact) return with_commas(number);
  double value = static_cast<double>(number) / 1e3;
  std::size_t unit = 0;
  for (; unit < 3 && value >= 999.5; ++unit) value /= 1e3;
  const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", value, digits, "kMBT"[unit]);
}

std::string file_size(std::int64_t bytes) {
  return scaled(static_cast<double>(bytes), 1000, std::array{"B", "kB", "MB", "GB", "TB"});
}

std::string memory_size(double bytes) { return scaled(bytes, 1024, std::array{"B", "KiB", "MiB", "GiB"}); }

std::string rough_duration(double seconds) {
  if (seconds < 1.5 * kMinute) return fmt::format("{:.0f} s", std::max(1.0, seconds));
  if (seconds < 1.5 * kHour) return fmt::format("{:.0f} min", seconds / kMinute);
  if (seconds < 2 * kDay) return fmt::format("{:.1f} h", seconds / kHour);
  return fmt::format("{:.1f} days", seconds / kDay);
}

std::string exact_duration(double seconds) {
  constexpr double kFew = 9.95;  // below this many units, a decimal is shown
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < kFew) return fmt::format("{:.1f} s", seconds);
  if (seconds >= 1.5 * kMinute && seconds < kFew * kMinute)
    return fmt::format("{:.1f} min", seconds / kMinute);
  return rough_duration(seconds);
}

std::string plural(std::int64_t count, std::string noun) {
  return fmt::format("{} {}{}", with_commas(count), noun, count == 1 ? "" : noun.ends_with('s') ? "es" : "s");
}

}  // namespace dpo
