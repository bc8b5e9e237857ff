#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/utf8.h"
#include "report/html.h"
#include "report/page.h"

namespace dpo::report {
namespace {

namespace fs = std::filesystem;

TEST(Escape, LeavesNothingThatHtmlWouldRead) {
  EXPECT_EQ(escape("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c&#39;");
  EXPECT_EQ(escape("é\n"), "é\n");
  EXPECT_EQ(escape("a\r\nb\r"), "a\nb·");
  EXPECT_EQ(escape(std::string_view("\0\x1b\x7f", 3)), "···");
}

// For any bytes, the result neither opens a tag nor ends an attribute, and is valid UTF-8.
TEST(Escape, HoldsForEveryByteAndPairOfBytes) {
  for (int first = 0; first < 256; ++first)
    for (int second = 0; second < 256; ++second) {
      const std::string text = {static_cast<char>(first), static_cast<char>(second)};
      const std::string html = escape(text);
      EXPECT_EQ(html.find_first_of("<>\"'"), html.npos) << first << " " << second;
      for (std::size_t at = html.find('&'); at != html.npos; at = html.find('&', at + 1)) {
        const std::string entity = html.substr(at, html.find(';', at) + 1 - at);
        EXPECT_TRUE(entity == "&amp;" || entity == "&lt;" || entity == "&gt;" || entity == "&quot;" ||
                    entity == "&#39;")
            << html;
      }
      EXPECT_TRUE(is_valid_utf8(html)) << first << " " << second;
    }
}

TEST(Clip, KeepsWholeCharactersAndCountsTheRest) {
  EXPECT_EQ(beginning_of("äöü", 3), "äöü");
  EXPECT_EQ(beginning_of("äöü!", 3), "äöü … (1 character more)");
  EXPECT_EQ(end_of("äöü!", 2), "(2 characters before) … ü!");
  EXPECT_EQ(ending_on_a_line("two\n\n three\t", 20), "two three");
  EXPECT_EQ(ending_on_a_line("one ä\n\n three", 9), "… ä three");
  EXPECT_EQ(beginning_of(std::string(1'000'000, 'x'), 2), "xx … (999,998 characters more)");
}

TEST(Ticks, AreRoundNumbersWithinTheRange) {
  EXPECT_EQ(ticks(0, 10), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(ticks(0, 3200), (std::vector<double>{0, 1000, 2000, 3000}));
  EXPECT_EQ(ticks(-2.5, 1).front(), -2);
  EXPECT_FALSE(std::signbit(ticks(0, 10).front()));  // a signed zero would be shown as -0
  const std::vector<double> small = ticks(0.1, 0.7);
  ASSERT_EQ(small.size(), 3u);
  EXPECT_DOUBLE_EQ(small.back(), 0.6);
}

std::string attribute(const std::string& html, const std::string& name, std::size_t from = 0) {
  const std::size_t begin = html.find(" " + name + "=\"", from) + name.size() + 3;
  return html.substr(begin, html.find('"', begin) - begin);
}

TEST(Figure, DrawsEveryFinitePointInsideTheFrame) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const std::string html =
      to_figure({"a <title>", "examples", {{"loss", {{0, 4}, {1, nan}, {2, 2}, {3, infinity}}, Mark::dots}}});
  EXPECT_NE(html.find("<figcaption>a &lt;title&gt;</figcaption>"), html.npos);
  const std::size_t curve = html.find("<g class=\"c0\"");
  EXPECT_EQ(attribute(html, "data-points", curve), "0,4 2,2 ");
  EXPECT_EQ(attribute(html, "points", curve), "56.0,10.0 388.0,188.0 ");
  EXPECT_NE(html.find("<circle cx=\"388.0\" cy=\"188.0\""), html.npos);
  EXPECT_EQ(html.find("nan"), html.npos);
  EXPECT_EQ(html.find("inf"), html.npos);
}

TEST(Figure, DrawsAHistogramAsBarsFromZero) {
  const std::string html =
      to_figure({"t", "margin", {{"last", {{-1, 0.25}, {0, 0.75}, {1, 0}}, Mark::steps}}});
  EXPECT_EQ(attribute(html, "points", html.find("<g ")),
            "56.0,188.0 56.0,132.4 222.0,132.4 222.0,21.1 388.0,21.1 388.0,188.0 ");
  EXPECT_NE(html.find("<line class=\"zero\" x1=\"222.0\""), html.npos);
}

TEST(Figure, SurvivesNothingAndValuesThatDoNotDiffer) {
  const std::vector<std::vector<Point>> cases = {{},
                                                 {{5, 7}},
                                                 {{0, 0}, {1, 0}},
                                                 {{0, 1}, {1, 1 + 1e-16}},
                                                 {{0, 0.6931471805599453}, {1, 0.6931471805599454}},
                                                 {{0, 1e300}, {1, 1e300}},
                                                 {{0, -1e308}, {1, 1e308}},
                                                 {{1e15, 5e-324}, {1e15 + 1, 1e-323}}};
  for (const std::vector<Point>& points : cases) {
    const std::string html = to_figure({"t", "x", {{"c", points}}});
    EXPECT_EQ(html.find("nan"), html.npos) << html;
    EXPECT_LT(html.size(), 5000u);
    EXPECT_TRUE(html.ends_with("</figure>"));
  }
  EXPECT_TRUE(to_figure({"t", "x", {}}).ends_with("</figure>"));
}

TEST(Page, HoldsItsPartsInOrderAndEscaped) {
  Page page("1 < 2");
  page.add_heading("first & last");
  page.add_lead("so & so", Tone::good);
  page.add_table({{"head"}, {{{"<i>", Tone::bad, "why"}}}});
  page.add_tiles(std::vector<Tile>{{"<name>", "<1>", "<note>"}});
  page.begin_details("more <b>", "<quote>");
  page.add_quotes(std::vector<Quote>{{"a \"title\"", {{"user<", "<script>alert(1)</script>"}}, Tone::bad}});
  page.end_details();
  page.add_list(std::vector<std::string>{"<li>"});
  page.add_code("a && b");
  const std::string html = page.to_html();
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>"));
  std::size_t at = 0;
  for (const char* part :
       {"<title>1 &lt; 2</title>", "<h1>1 &lt; 2</h1>", "<a href=\"#part-1\">first &amp; last</a>",
        "<h2 id=\"part-1\">first &amp; last</h2>", "<p class=\"lead good\">so &amp; so</p>",
        "<th scope=\"col\">head</th>", "<td class=\"bad\">&lt;i&gt;<small>why</small></td>",
        "<dt>&lt;name&gt;</dt><dd>&lt;1&gt;<small>&lt;note&gt;</small></dd>",
        "<details><summary>more &lt;b&gt; <bdi>&lt;quote&gt;</bdi></summary>",
        "<section class=\"quote bad\"><h3>a &quot;title&quot;</h3>",
        "<p dir=\"auto\"><b dir=\"ltr\">user&lt;</b>&lt;script&gt;alert(1)&lt;/script&gt;</p></div>",
        "</details>", "<li>&lt;li&gt;</li>", "<pre tabindex=\"0\">a &amp;&amp; b</pre>", "<script>",
        "</script>"}) {
    at = html.find(part, at);
    ASSERT_NE(at, html.npos) << part;
  }
  EXPECT_EQ(html.find("<script>"), html.rfind("<script>"));  // our own
  EXPECT_EQ(html.find("://"), html.npos);                    // nothing from elsewhere
}

TEST(MetricLog, GivesAMetricAgainstTheExamples) {
  const fs::path file = fs::path(testing::TempDir()) / "dpo_report_metrics.jsonl";
  std::ofstream(file) << "{\"counters/examples\": 32, \"loss/train\": 2.5}\n"
                         "{\"counters/examples\": 64, \"loss/eval\": 2}\n"
                         "{\"counters/examples\": 64, \"loss/train\": null}\n"
                         "{\"counters/exam";
  const MetricLog log(file);
  const Series& series = log.series("loss/train");
  fs::remove(file);
  ASSERT_EQ(series.size(), 1u);
  EXPECT_EQ(series.last().x, 32);
  EXPECT_EQ(series.last().y, 2.5);
  EXPECT_THROW(MetricLog("/nowhere/metrics.jsonl"), UserError);
}

}  // namespace
}  // namespace dpo::report
