#pragma once

#include <string>
#include <vector>

#include "report/metric_log.h"

namespace dpo::report {

struct Curve {
  std::string name;
  std::vector<Point> points;  // in order of x; those that are not finite are skipped
};

struct Chart {
  std::string title, x;  // x: label of the x axis
  std::vector<Curve> curves;
};

// The chart as an <svg> element that scales with its container.
std::string to_svg(const Chart& chart);

// Round numbers that divide [low, high] into a handful of steps.
std::vector<double> ticks(double low, double high);

}  // namespace dpo::report
