#pragma once

#include <string>
#include <vector>

#include "report/metric_log.h"

namespace dpo::report {

// Drawing style of a curve. dots: a line with a dot at each point, for evaluations. steps: a histogram. Each
// of its points is the left edge and the height of a bar, and the last one the right edge of the last bar.
enum class Mark { line, dots, steps };

struct Curve {
  std::string name;
  std::vector<Point> points;  // in order of x; those that are not finite are skipped
  Mark mark = Mark::line;
};

struct Chart {
  std::string title, x;  // `x` is the label of the x axis
  std::vector<Curve> curves;
};

inline constexpr std::size_t kMostCurves = 8;  // each has its own colour and dash pattern

// Returns the chart as a <figure> with an <svg> that scales with its container. The page's script reads the
// values from its data attributes.
std::string to_figure(const Chart& chart);

// Returns round numbers that divide [low, high] into a few steps.
std::vector<double> ticks(double low, double high);

}  // namespace dpo::report
