#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"
#include "report/page.h"

namespace dpo::report {
namespace {

namespace fs = std::filesystem;

TEST(Escape, LeavesNothingThatHtmlWouldRead) {
  EXPECT_EQ(escape("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c&#39;");
  EXPECT_EQ(escape("é\n"), "é\n");
  EXPECT_EQ(escape(std::string_view("\0\x1b\x7f", 3)), "···");
}

TEST(Ticks, AreRoundNumbersWithinTheRange) {
  EXPECT_EQ(ticks(0, 10), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(ticks(0, 3200), (std::vector<double>{0, 1000, 2000, 3000}));
  EXPECT_EQ(ticks(-2.5, 1).front(), -2);
  EXPECT_FALSE(std::signbit(ticks(0, 10).front()));  // which would be shown as -0
  const std::vector<double> small = ticks(0.1, 0.7);
  ASSERT_EQ(small.size(), 3u);
  EXPECT_DOUBLE_EQ(small.back(), 0.6);
}

TEST(Svg, DrawsEveryFinitePointInsideTheFrame) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const std::string svg =
      to_svg({"a <title>", "examples", {{"loss", {{0, 4}, {1, nan}, {2, 2}, {3, infinity}}}}});
  EXPECT_NE(svg.find("a &lt;title&gt;"), svg.npos);
  const std::size_t begin = svg.find("points=\"") + 8;
  EXPECT_EQ(svg.substr(begin, svg.find('"', begin) - begin), "52.0,44.0 448.0,218.0 ");
  EXPECT_EQ(svg.find("nan"), svg.npos);
  EXPECT_EQ(svg.find("inf"), svg.npos);
}

TEST(Svg, SurvivesNothingAndOneValue) {
  for (const Chart& chart :
       {Chart{"t", "x", {}}, Chart{"t", "x", {{"c", {}}}}, Chart{"t", "x", {{"c", {{5, 7}}}}}}) {
    const std::string svg = to_svg(chart);
    EXPECT_EQ(svg.find("nan"), svg.npos) << svg;
    EXPECT_TRUE(svg.ends_with("</svg>"));
  }
}

TEST(Page, HoldsItsPartsInOrderAndEscaped) {
  Page page("1 < 2");
  page.add_heading("first");
  page.add_table({{"head"}, {{{"<i>", Tone::bad, "why"}}}});
  page.add_code("a && b");
  const std::string html = page.to_html();
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>"));
  EXPECT_NE(html.find("<title>1 &lt; 2</title>"), html.npos);
  EXPECT_LT(html.find("<h2>first</h2>"), html.find("<th>head</th>"));
  EXPECT_NE(html.find("<td class=\"bad\">&lt;i&gt;<small>why</small></td>"), html.npos);
  EXPECT_NE(html.find("<pre>a &amp;&amp; b</pre>"), html.npos);
  EXPECT_EQ(html.find("<script"), html.npos);
  EXPECT_EQ(html.find("http"), html.npos);  // nothing from elsewhere
}

TEST(MetricLog, GivesAMetricAgainstTheExamples) {
  const fs::path file = fs::path(testing::TempDir()) / "dpo_report_metrics.jsonl";
  std::ofstream(file) << "{\"counters/examples\": 32, \"loss/train\": 2.5}\n"
                         "{\"counters/examples\": 64, \"loss/eval\": 2}\n"
                         "{\"counters/examples\": 64, \"loss/train\": null}\n"
                         "{\"counters/exam";
  const std::vector<Point> points = MetricLog(file).points("loss/train");
  fs::remove(file);
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0].x, 32);
  EXPECT_EQ(points[0].y, 2.5);
  EXPECT_THROW(MetricLog("/nowhere/metrics.jsonl"), UserError);
}

}  // namespace
}  // namespace dpo::report
