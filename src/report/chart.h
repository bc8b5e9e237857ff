#pragma once

#include <string>
#include <vector>

#include "report/metric_log.h"

namespace dpo::report {

struct Curve {
  std::string name;
  std::vector<Point> points;  // x rises; what is not finite is left out
};

struct Chart {
  std::string title, x;  // x: what stands below the axis
  std::vector<Curve> curves;
};

// The chart as an <svg> element that scales with its surroundings.
std::string to_svg(const Chart& chart);

// Round numbers that divide [low, high] into a handful of steps.
std::vector<double> ticks(double low, double high);

// A text as HTML: what has a meaning there is escaped, what may not stand there (control characters) becomes
// a middle dot.
std::string escape(std::string_view text);

}  // namespace dpo::report
