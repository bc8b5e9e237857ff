#include "report/chart.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include "report/html.h"

namespace dpo::report {
namespace {

// Sizes in units of the viewBox. On a phone the chart is about 330 pixels wide, and its labels stay readable.
constexpr double kWidth = 400, kHeight = 230;
constexpr double kLeft = 56, kRight = 12, kTop = 10, kBottom = 42;

// Returns true if a point can be drawn. The bound keeps the arithmetic of axes finite. It is false for NaN.
bool is_finite(const Point& point) { return std::abs(point.x) < 1e100 && std::abs(point.y) < 1e100; }

// Range of the values along an axis.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Values that differ only by rounding count as equal, because steps between them would look the same.
  void ensure_width() {
    if (low > high) low = 0, high = 1;
    const double largest = std::max(std::abs(low), std::abs(high));
    if (high - low > std::max(1e-9 * largest, 1e-100)) return;
    const double half = largest < 1e-100 ? 0.5 : largest / 2;
    low -= half, high += half;
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
    for (const Curve& curve : chart.curves) {
      for (const Point& point : curve.points)
        if (is_finite(point)) x.add(point.x), y.add(point.y);
      if (curve.mark == Mark::steps) y.add(0);
    }
    x.ensure_width();
    y.ensure_width();
    const double step = step_of(y.low, y.high);
    y = {std::floor(y.low / step) * step, std::ceil(y.high / step) * step};
  }
  double across(double value) const { return kLeft + x.share(value) * (kWidth - kLeft - kRight); }
  double down(double value) const { return kHeight - kBottom - y.share(value) * (kHeight - kTop - kBottom); }
};

// Returns 0.25, 8000, 12.5k or 3M.
std::string tick_text(double value) {
  const double size = std::abs(value);
  if (size >= 1e6) return fmt::format("{:.4g}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:.4g}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

std::string vertical(const char* name, double x) {
  return fmt::format(R"(<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", name, x, kTop,
                     x, kHeight - kBottom);
}

std::string grid(const Axes& axes) {
  std::string svg;
  for (const double value : ticks(axes.y.low, axes.y.high))
    svg += fmt::format(
        R"(<line class="grid" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/><text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)",
        kLeft, axes.down(value), kWidth - kRight, axes.down(value), kLeft - 6, axes.down(value) + 4,
        tick_text(value));
  for (const double value : ticks(axes.x.low, axes.x.high))
    svg += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", axes.across(value),
                       kHeight - kBottom + 17, tick_text(value));
  if (axes.x.low < 0 && axes.x.high > 0) svg += vertical("zero", axes.across(0));
  return svg;
}

// Returns the corners of a histogram's outline.
std::vector<Point> outline_of(const std::vector<Point>& bars) {
  std::vector<Point> corners;
  double height = 0;
  for (const Point& bar : bars) {
    corners.push_back({bar.x, height});
    corners.push_back({bar.x, height = bar.y});
  }
  return corners;
}

std::string shapes_of(const Curve& curve, const Axes& axes) {
  std::vector<Point> finite;
  std::ranges::copy_if(curve.points, std::back_inserter(finite), is_finite);
  std::string line, dots;
  for (const Point& point : curve.mark == Mark::steps ? outline_of(finite) : finite) {
    line += fmt::format("{:.1f},{:.1f} ", axes.across(point.x), axes.down(point.y));
    if (curve.mark == Mark::dots)
      dots += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="2.6"/>)", axes.across(point.x),
                          axes.down(point.y));
  }
  return fmt::format(R"(<polyline class="{}" points="{}"/>{})",
                     curve.mark == Mark::steps ? "curve steps" : "curve", line, dots);
}

// Returns "x,y x,y " for the script of the page.
std::string values_of(const Curve& curve) {
  std::string values;
  for (const Point& point : curve.points)
    if (is_finite(point)) values += fmt::format("{:.7g},{:.5g} ", point.x, point.y);
  return values;
}

std::string legend_of(const Chart& chart) {
  std::string html = "<ul class=\"legend\">";
  for (std::size_t i = 0; i < chart.curves.size(); ++i) {
    if (chart.curves[i].points.empty()) continue;
    html += fmt::format(
        R"(<li class="c{}"><svg viewBox="0 0 24 8" aria-hidden="true"><polyline class="curve" points="0,4 24,4"/></svg>{}</li>)",
        i % kMostCurves, escape(chart.curves[i].name));
  }
  return html + "</ul>";
}

}  // namespace

std::vector<double> ticks(double low, double high) {
  const double step = step_of(low, high);
  std::vector<double> values;
  // Computes i * step, because repeated addition of steps such as 0.1 drifts. 0 + turns -0 into 0.
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i)
    values.push_back(0 + i * step);
  return values;
}

std::string to_figure(const Chart& chart) {
  const Axes axes(chart);
  std::string html =
      fmt::format(R"(<figure class="chart{}"><figcaption>{}</figcaption>{})",
                  chart.curves.size() > 2 ? " many" : "", escape(chart.title), legend_of(chart));
  // Arrow keys move a cursor over the points, so the chart must be able to take the focus.
  html += fmt::format(
      R"(<svg class="plot" viewBox="0 0 {} {}" role="img" tabindex="0" aria-label="{}" data-x="{}" data-frame="{:.7g} {:.7g} {} {}">)",
      kWidth, kHeight, escape(chart.title), escape(chart.x), axes.x.low, axes.x.high, kLeft, kWidth - kRight);
  html += grid(axes);
  for (std::size_t i = 0; i < chart.curves.size(); ++i)
    html += fmt::format(R"(<g class="c{}" data-name="{}" data-points="{}">{}</g>)", i % kMostCurves,
                        escape(chart.curves[i].name), values_of(chart.curves[i]),
                        shapes_of(chart.curves[i], axes));
  html += vertical("cursor", kLeft);
  html += fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text></svg>)",
                      (kLeft + kWidth - kRight) / 2, kHeight - 6, escape(chart.x));
  return html + "<output aria-live=\"polite\"></output></figure>";
}

}  // namespace dpo::report
