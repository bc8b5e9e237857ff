#include "report/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "report/html.h"

namespace dpo::report {
namespace {

constexpr double kWidth = 460, kHeight = 260;
constexpr double kLeft = 52, kRight = 12, kTop = 44, kBottom = 42;
constexpr std::array kColours = {"#2563a8", "#c2541b", "#2e7d4f", "#7a4fa0"};

bool is_finite(const Point& point) { return std::isfinite(point.x) && std::isfinite(point.y); }

// The values along an axis.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void ensure_width() {
    if (low > high) low = 0, high = 1;
    if (low == high) low -= 0.5, high += 0.5;
  }
  double share(double value) const { return (value - low) / (high - low); }
};

double step_of(double low, double high) {
  const double rough = (high - low) / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (rough <= factor * power) return factor * power;
  return 10 * power;
}

struct Axes {
  Range x, y;

  explicit Axes(const Chart& chart) {
    for (const Curve& curve : chart.curves)
      for (const Point& point : curve.points)
        if (is_finite(point)) x.add(point.x), y.add(point.y);
    x.ensure_width();
    y.ensure_width();
    const double step = step_of(y.low, y.high);
    y = {std::floor(y.low / step) * step, std::ceil(y.high / step) * step};
  }
  double across(double value) const { return kLeft + x.share(value) * (kWidth - kLeft - kRight); }
  double down(double value) const { return kHeight - kBottom - y.share(value) * (kHeight - kTop - kBottom); }
};

std::string grid(const Axes& axes) {
  std::string svg;
  for (const double value : ticks(axes.y.low, axes.y.high))
    svg += fmt::format(
        R"(<line class="grid" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/><text x="{:.1f}" y="{:.1f}" text-anchor="end">{:.6g}</text>)",
        kLeft, axes.down(value), kWidth - kRight, axes.down(value), kLeft - 6, axes.down(value) + 4, value);
  for (const double value : ticks(axes.x.low, axes.x.high))
    svg += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{:.6g}</text>)",
                       axes.across(value), kHeight - kBottom + 17, value);
  return svg;
}

std::string line_of(const Curve& curve, const Axes& axes, const char* colour) {
  std::string path;
  for (const Point& point : curve.points)
    if (is_finite(point)) path += fmt::format("{:.1f},{:.1f} ", axes.across(point.x), axes.down(point.y));
  return fmt::format(R"(<polyline class="curve" stroke="{}" points="{}"/>)", colour, path);
}

}  // namespace

std::vector<double> ticks(double low, double high) {
  const double step = step_of(low, high);
  std::vector<double> values;
  // i * step, since repeated addition of steps such as 0.1 drifts; 0 + turns -0 into 0.
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i)
    values.push_back(0 + i * step);
  return values;
}

std::string to_svg(const Chart& chart) {
  const Axes axes(chart);
  std::string svg = fmt::format(
      R"(<svg viewBox="0 0 {} {}" role="img" aria-label="{}"><text class="title" x="{}" y="16">{}</text>)",
      kWidth, kHeight, escape(chart.title), kLeft, escape(chart.title));
  svg += grid(axes);
  double legend = kLeft;
  for (std::size_t i = 0; i < chart.curves.size(); ++i) {
    const char* const colour = kColours[i % kColours.size()];
    svg += line_of(chart.curves[i], axes, colour);
    svg += fmt::format(R"(<text x="{:.1f}" y="33" fill="{}">{}</text>)", legend, colour,
                       escape(chart.curves[i].name));
    legend += 14 + 6.5 * static_cast<double>(chart.curves[i].name.size());
  }
  return svg + fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text></svg>)",
                           (kLeft + kWidth - kRight) / 2, kHeight - 6, escape(chart.x));
}

}  // namespace dpo::report
